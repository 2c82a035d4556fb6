// usage: node run.mjs BIN_DIR | --direct      (run.sh calls this once the packages are there)
//
// One run: a temporary home, a daemon in it, the test programs, the daemon's end. A process that is left
// behind fails the run like a test does. With --direct the children are tested alone, without Switchboard.

import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { makeHome } from './make-home.mjs';

const READY_MS = 10_000;
const STOP_MS = 15_000;
/** From the daemon's end to the last of its children's. */
const GONE_MS = 3_000;
const TESTS_MS = 300_000;

const [where] = process.argv.slice(2);
if (!where) {
    console.error('usage: run.sh BIN_DIR | --direct');
    process.exit(2);
}

const home = realpathSync(mkdtempSync(join(tmpdir(), 'switchboard-interop-')));
let daemon;
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.once(signal, () => {
        daemon?.kill('SIGKILL');
        process.exit(1);
    });
}

let failure;
try {
    makeHome(home);
    if (where === '--direct') await tests(['direct.test.mjs'], {});
    else await throughSwitchboard(resolve(where));
} catch (error) {
    failure = error;
}
const left = await leftovers();
if (left.length) failure ??= new Error(`left behind:\n  ${left.join('\n  ')}`);

if (failure) {
    console.error(`interop: FAILED: ${failure.message}\ninterop: its home is kept: ${home}`);
    process.exit(1);
}
rmSync(home, { recursive: true });
console.log('interop: all passed, no process left');

async function throughSwitchboard(bin) {
    // Its own folder, 0700: the daemon refuses a socket where others could reach it.
    const run = join(home, 'run');
    mkdirSync(run, { mode: 0o700 });
    const socket = join(run, 's');
    const env = { ...clean(), INTEROP_DAEMON_SECRET: 'of the daemon', LOG_LEVEL: process.env.LOG_LEVEL ?? 'warn' };
    daemon = spawn(join(bin, 'switchboardd'), ['--socket', socket, '--listen', '127.0.0.1:0'], {
        env,
        cwd: home,
        stdio: ['ignore', 'inherit', 'inherit'],
    });
    const ended = once(daemon, 'exit');
    try {
        const { tcp, token } = await ready(socket);
        await tests(['stdio.test.mjs', 'http.test.mjs', 'registry.test.mjs'], {
            SWITCHBOARD_BIN: join(bin, 'switchboard'),
            SWITCHBOARD_SOCKET: socket,
            SWITCHBOARD_TCP: tcp,
            SWITCHBOARD_TOKEN: token,
        });
        if (daemon.exitCode !== null || daemon.signalCode !== null) throw new Error('switchboardd ended by itself');
    } finally {
        daemon.kill('SIGTERM');
        const stopped = await Promise.race([ended, pause(STOP_MS, undefined, { ref: false })]);
        if (!stopped) {
            daemon.kill('SIGKILL');
            failure = new Error(`switchboardd did not end within ${STOP_MS} ms of SIGTERM`);
        } else if (stopped[0] !== 0) {
            failure = new Error(`switchboardd ended with ${stopped[0] ?? stopped[1]} after SIGTERM`);
        }
    }
    if (failure) throw failure;
}

/** Waits until the daemon says where it listens and answers there. */
async function ready(socket) {
    for (const end = Date.now() + READY_MS; ; await pause(20)) {
        try {
            const { tcp, tokenFile } = JSON.parse(readFileSync(`${socket}.json`, 'utf8'));
            const base = tcp.includes('://') ? tcp : `http://${tcp}`;
            const { ok } = await fetch(new URL('/health', base));
            if (ok) return { tcp: base, token: readFileSync(tokenFile, 'utf8').trim() };
        } catch (error) {
            if (daemon.exitCode !== null) throw new Error(`switchboardd ended at once with ${daemon.exitCode}`);
            if (Date.now() > end) throw new Error(`switchboardd is not ready: ${error.message}`);
        }
    }
}

/** One file after the other: a question of a shared child is refused while two hosts wait for it. */
async function tests(files, env) {
    const args = ['--test', '--test-concurrency=1', '--test-reporter=spec'];
    const runner = spawn(process.execPath, [...args, ...files], {
        cwd: fileURLToPath(new URL('.', import.meta.url)),
        env: { ...clean(), ...env, SWITCHBOARD_INTEROP_HOME: home },
        stdio: ['ignore', 'inherit', 'inherit'],
        timeout: TESTS_MS,
    });
    const [code, signal] = await once(runner, 'exit');
    if (code !== 0) throw new Error(signal ? `the tests were stopped after ${TESTS_MS} ms` : 'tests failed');
}

/** This process's environment, at home in the temporary home. */
function clean() {
    const { XDG_CONFIG_HOME, XDG_STATE_HOME, XDG_RUNTIME_DIR, SWITCHBOARD_SOCKET, ...rest } = process.env;
    return { ...rest, HOME: home };
}

/** Processes that still have the temporary home in their command line or environment. */
async function leftovers() {
    for (const end = Date.now() + GONE_MS; ; await pause(50)) {
        const found = processes().filter(({ pid, text }) => pid !== process.pid && text.includes(home));
        if (!found.length || Date.now() > end) return found.map(({ pid, command }) => `${pid} ${command}`);
    }
}

function processes() {
    if (process.platform === 'linux') {
        return readdirSync('/proc').filter(name => /^\d+$/.test(name)).flatMap(pid => {
            try {
                const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
                return [{ pid: Number(pid), command, text: command + readFileSync(`/proc/${pid}/environ`, 'utf8') }];
            } catch {
                return []; // gone in the meantime, or somebody else's
            }
        });
    }
    return execFileSync('ps', ['-axwwE', '-o', 'pid=,command='], { encoding: 'utf8' }).split('\n').map(line => {
        const [pid, ...rest] = line.trim().split(' ');
        return { pid: Number(pid), command: rest.join(' ').slice(0, 200), text: line };
    });
}

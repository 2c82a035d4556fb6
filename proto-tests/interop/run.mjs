// usage: node run.mjs BIN_DIR | --direct      (run.sh calls this once the packages are there)
//
// One run: a temporary home, a daemon in it, the test programs, the daemon's end. A process that is left
// behind fails the run like a test does. With --direct the children are tested alone, without Switchboard.

import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { atHome, startDaemon } from './daemon.mjs';
import { makeHome } from './make-home.mjs';

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
        daemon?.kill();
        process.exit(1);
    });
}

let failure;
try {
    makeHome(home);
    if (where === '--direct') await tests(['direct.test.mjs'], {}, 1);
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
    daemon = await startDaemon(bin, home);
    const env = {
        SWITCHBOARD_BIN: join(bin, 'switchboard'),
        SWITCHBOARD_SOCKET: daemon.socket,
        SWITCHBOARD_TCP: daemon.tcp,
        SWITCHBOARD_TOKEN: daemon.token,
    };
    try {
        const outcomes = await Promise.allSettled([
            // A question of a shared child is refused while two hosts wait for it.
            tests(['stdio.test.mjs', 'http.test.mjs', 'registry.test.mjs'], env, 1),
            // These have children, and daemons, of their own.
            tests(['eras.test.mjs', 'inspector.test.mjs', 'remote.test.mjs'], env, 3),
        ]);
        const failed = outcomes.find(({ status }) => status === 'rejected');
        if (failed) throw failed.reason;
    } finally {
        await daemon.stop();
    }
}

/** So many files at a time. Whoever runs beside another keeps what it has to say until its end. */
async function tests(files, env, concurrency) {
    const args = ['--test', `--test-concurrency=${concurrency}`, '--test-reporter=spec'];
    const runner = spawn(process.execPath, [...args, ...files], {
        cwd: fileURLToPath(new URL('.', import.meta.url)),
        env: { ...atHome(home), ...env, SWITCHBOARD_INTEROP_HOME: home },
        stdio: ['ignore', 'pipe', 'pipe'],
        timeout: TESTS_MS,
    });
    const said = [];
    for (const stream of [runner.stdout, runner.stderr]) stream.on('data', chunk => said.push(chunk));
    const [code, signal] = await once(runner, 'close');
    process.stdout.write(Buffer.concat(said));
    if (code !== 0) throw new Error(signal ? `the tests were stopped after ${TESTS_MS} ms` : 'tests failed');
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

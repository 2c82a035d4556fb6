// One `switchboardd`, from its start to its end.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

const READY_MS = 20_000;
const STOP_MS = 15_000;

/** This process's environment, at home in `home`. */
export function atHome(home) {
    const { XDG_CONFIG_HOME, XDG_STATE_HOME, XDG_RUNTIME_DIR, SWITCHBOARD_SOCKET, ...rest } = process.env;
    return { ...rest, HOME: home };
}

/** Starts the daemon of `home` and waits until it answers; `stop` has it end, and throws where that goes wrong. */
export async function startDaemon(bin, home) {
    // Its own folder, 0700: the daemon refuses a socket where others could reach it.
    const run = join(home, 'run');
    mkdirSync(run, { mode: 0o700 });
    const socket = join(run, 's');
    const env = { ...atHome(home), INTEROP_DAEMON_SECRET: 'of the daemon', LOG_LEVEL: process.env.LOG_LEVEL ?? 'warn' };
    const daemon = spawn(join(bin, 'switchboardd'), ['--socket', socket, '--listen', '127.0.0.1:0'], {
        env,
        cwd: home,
        stdio: ['ignore', 'inherit', 'inherit'],
    });
    const ended = once(daemon, 'exit');
    const kill = () => daemon.kill('SIGKILL');
    const stop = async () => {
        if (daemon.exitCode !== null || daemon.signalCode !== null) throw new Error('switchboardd ended by itself');
        daemon.kill('SIGTERM');
        const stopped = await Promise.race([ended, pause(STOP_MS, undefined, { ref: false })]);
        if (!stopped) {
            kill();
            throw new Error(`switchboardd did not end within ${STOP_MS} ms of SIGTERM`);
        }
        if (stopped[0] !== 0) throw new Error(`switchboardd ended with ${stopped[0] ?? stopped[1]} after SIGTERM`);
    };
    try {
        return { socket, ...(await ready(daemon, socket)), stop, kill };
    } catch (error) {
        kill();
        throw error;
    }
}

/** Waits until the daemon says where it listens and answers there. */
async function ready(daemon, socket) {
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

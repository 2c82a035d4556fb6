// usage: node reach.mjs BIN_DIR [HOST…]      (run.sh calls this after run.mjs)
//
// How many subtools of a whole `introspect` reach the model in real hosts, which cut long results. The servers are recorded
// ones with long lists, played by `replay-child`; the model is the mock one. `FINDING.md` computes the same from the hosts'
// limits.

import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { startDaemon } from '../interop/daemon.mjs';
import { HOSTS } from './hosts.mjs';
import { startModel } from './model.mjs';

const RUN_MS = 60_000;
const SERVERS = ['notion', 'devtools'];
const INTROSPECT = { action: 'introspect' };

const [where, ...names] = process.argv.slice(2);
const bin = resolve(where);
let failed = false;
for (const name of names.length ? names : ['claude-code', 'gemini']) {
    for (const { server, arrived, all, said } of await reach(name)) {
        console.log(`${name}: ${arrived} of ${all} subtools of ${server} reach the model`);
        if (arrived === all) continue;
        failed = true;
        console.error(`permissions: FAILED: ${name} leaves this of \`introspect\`:\n${said}`);
    }
}
if (failed) process.exit(1);

async function reach(name) {
    const host = HOSTS[name];
    const home = realpathSync(mkdtempSync(join(tmpdir(), 'switchboard-reach-')));
    const [project, tmp] = [join(home, 'project'), join(home, 'tmp')];
    for (const folder of [project, tmp]) mkdirSync(folder, { mode: 0o700 });
    SERVERS.forEach(server => define(home, server));
    const daemon = await startDaemon(bin, home);
    const model = await startModel(SERVERS.map(server => ({ tool: `${server}_suite`, input: INTROSPECT })));
    try {
        const whole = [];
        for (const server of SERVERS) whole.push(await introspect(daemon, server));
        const env = {
            PATH: process.env.PATH, HOME: home, USER: 'user', LOGNAME: 'user', SHELL: '/bin/sh', LANG: 'C.UTF-8', TERM: 'dumb',
            NO_COLOR: '1', CI: '1', TMPDIR: tmp, ...host.env({ model }),
            HTTP_PROXY: model.url, HTTPS_PROXY: model.url, http_proxy: model.url, https_proxy: model.url,
            NO_PROXY: '127.0.0.1,localhost', no_proxy: '127.0.0.1,localhost',
        };
        const allowed = SERVERS.map(server => `${server}_suite`);
        host.set_up({ home, shim: join(bin, 'switchboard'), env: { SWITCHBOARD_SOCKET: daemon.socket }, allowed, model });
        await run(host, env, project);
        return SERVERS.map((server, at) => {
            // The first line says what is left out; each of the others is one subtool.
            const lines = whole[at].split('\n').slice(1);
            // Once a server has run, its tools that write are marked.
            const said = (model.results[at] ?? '').replaceAll(' [writes]', '');
            // Some hosts wrap the text into JSON.
            const arrived = lines.filter(line => said.includes(line) || said.includes(JSON.stringify(line).slice(1, -1)));
            return { server, arrived: arrived.length, all: lines.length, said };
        });
    } finally {
        model.stop();
        await daemon.stop();
        rmSync(home, { recursive: true });
    }
}

function define(home, server) {
    const folder = join(home, '.config', 'switchboard', 'mcps', server);
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const definition = { name: server, command: { cmd: join(bin, 'replay-child'), args: [server] } };
    writeFileSync(join(folder, '.mcp.json'), JSON.stringify(definition), { mode: 0o600 });
}

/** The text as Switchboard gives it. */
async function introspect({ tcp, token }, server) {
    const params = { name: `${server}_suite`, arguments: INTROSPECT };
    const response = await fetch(new URL('/proxy', tcp), {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
    });
    return (await response.json()).result.content[0].text;
}

function run(host, env, cwd) {
    return new Promise(done => {
        const options = { env, cwd, timeout: RUN_MS, killSignal: 'SIGKILL', maxBuffer: 1 << 26 };
        execFile(host.program, host.args(), options, () => done()).stdin.end();
    });
}

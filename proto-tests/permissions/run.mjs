// usage: node run.mjs BIN_DIR [HOST…]      (run.sh calls this once the packages are there)
//
// Real hosts with rules of their users, headless, against a mock model. Switchboard is their server: real shim, real
// daemon, and the npm filesystem server, whose tools partly read and partly write. In each host the model asks for a call
// that reads, for one that writes, and for one that writes through the tool that reads, once with a rule for the reading
// tool only and once with rules for both.

import { execFile, execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startDaemon } from '../interop/daemon.mjs';
import { HOSTS } from './hosts.mjs';
import { startModel } from './model.mjs';

const RUN_MS = 60_000;
const SERVER = fileURLToPath(new URL('.cache/npm/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js', import.meta.url));
const READS = 'filesystem_suite';
const WRITES = 'filesystem_suite_write';

const [where, ...names] = process.argv.slice(2);
const bin = resolve(where);
const hosts = names.length ? names : ['claude-code', 'gemini'];
let failed = 0;

for (const name of hosts) {
    const begin = Date.now();
    for (const allowed of [[READS], [READS, WRITES]]) {
        try {
            await check(name, allowed);
        } catch (error) {
            failed += 1;
            console.error(`permissions: FAILED: ${name}, allowed ${allowed.join(' and ')}: ${error.message}`);
        }
    }
    console.log(`${name}: ${((Date.now() - begin) / 1000).toFixed(1)} s`);
}
if (failed) process.exit(1);
console.log('permissions: what reads ran without a question, what writes did not; with a rule for it, it did');

async function check(name, allowed) {
    const host = HOSTS[name];
    if (!existsSync(host.program)) throw new Error(`${host.program} is not there`);
    const home = realpathSync(mkdtempSync(join(tmpdir(), 'switchboard-permissions-')));
    // The server works on what the host has open.
    const files = join(home, 'project');
    mkdirSync(files);
    writeFileSync(join(files, 'note.txt'), 'the note says 4711\n');
    define(home, files);

    const write = (tool, file) => ({ tool, input: { action: 'call', subtool: 'write_file', args: { path: join(files, file), content: 'written' } } });
    const model = await startModel([
        { tool: READS, input: { action: 'introspect' } },
        { tool: READS, input: { action: 'call', subtool: 'read_text_file', args: { path: join(files, 'note.txt') } } },
        write(READS, 'past.txt'),
        write(WRITES, 'new.txt'),
    ]);
    const daemon = await startDaemon(bin, home);
    const clean = {
        PATH: process.env.PATH, HOME: home, USER: 'user', LOGNAME: 'user', SHELL: '/bin/sh', LANG: 'C.UTF-8', TERM: 'dumb', NO_COLOR: '1', CI: '1',
        TMPDIR: join(home, 'tmp'),
    };
    mkdirSync(clean.TMPDIR, { mode: 0o700 });
    const ours = { SWITCHBOARD_SOCKET: daemon.socket };
    const ctl = (...args) => execFileSync(join(bin, 'switchboard-ctl'), args, { env: { ...clean, ...ours }, encoding: 'utf8' });
    let said = '';
    try {
        // From now on the daemon knows which tools of the server read.
        ctl('introspect', 'filesystem');
        host.set_up({ home, shim: join(bin, 'switchboard'), env: ours, allowed, model });
        const env = {
            ...clean,
            ...host.env({ model }),
            // Whatever is not on this machine ends at the model, which lets nothing through.
            HTTP_PROXY: model.url, HTTPS_PROXY: model.url, http_proxy: model.url, https_proxy: model.url,
            NO_PROXY: '127.0.0.1,localhost', no_proxy: '127.0.0.1,localhost',
        };
        said = await run(host.program, host.args(), env, files);
        judge(host, allowed, files, model, said, ctl);
    } catch (error) {
        throw new Error(`${error.message}\n${model.requests.join('\n')}\n${model.results.map(text => text.slice(0, 600)).join('\n--\n')}\n${said}\n${ctl('calls', '--json')}\nits home is kept: ${home}`);
    } finally {
        model.stop();
        await daemon.stop();
    }
    if (model.elsewhere.size) console.log(`${name} tried to reach ${[...model.elsewhere].join(', ')}: refused`);
    rmSync(home, { recursive: true });
}

function define(home, files) {
    const folder = join(home, '.config', 'switchboard', 'mcps', 'filesystem');
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const definition = { name: 'filesystem', command: { cmd: process.execPath, args: [SERVER, files] } };
    writeFileSync(join(folder, '.mcp.json'), JSON.stringify(definition), { mode: 0o600 });
    const config = { timeouts: { childSpawnMs: 60_000 } };
    writeFileSync(join(home, '.config', 'switchboard', 'switchboard.config.json'), JSON.stringify(config), { mode: 0o600 });
}

/** What the host said; its exit code says nothing about single calls. */
function run(program, args, env, cwd) {
    return new Promise((done, reject) => {
        const child = execFile(program, args, { env, cwd, timeout: RUN_MS, killSignal: 'SIGKILL', maxBuffer: 1 << 26 }, (error, out, err) => {
            const said = `${out}\n${err}`;
            if (error?.killed) reject(new Error(`the host was stopped after ${RUN_MS} ms\n${said}`));
            else done(said);
        });
        child.stdin.end();
    });
}

function judge(host, allowed, files, model, said, ctl) {
    const may_write = allowed.includes(WRITES);
    const expect = (holds, problem) => {
        if (!holds) throw new Error(problem);
    };
    const came_back = host.ends_refused && !may_write ? 3 : 4;
    expect(model.results.length === came_back, `${model.results.length} of ${came_back} calls came back`);
    const [list, read, past, wrote] = model.results;
    expect(/read_text_file/.test(list), 'introspect did not run without a question');
    expect(read.includes('4711'), 'the call that reads did not run without a question');
    expect(past.includes(WRITES), 'a call that writes through the reading tool was not sent to the writing one');
    expect(!existsSync(join(files, 'past.txt')), 'the reading tool wrote');
    expect(existsSync(join(files, 'new.txt')) === may_write, may_write ? 'the call that writes did not run' : 'the call that writes ran without a question');
    expect(may_write || host.refusal.test(wrote ?? said), `nobody was told of the refusal: ${wrote}`);
    expect(!may_write || readFileSync(join(files, 'new.txt'), 'utf8') === 'written', 'the wrong thing was written');
    // What the host itself refused never reached Switchboard.
    const calls = ctl('calls', '--json');
    expect((calls.match(/"write_file"/g) ?? []).length === (may_write ? 2 : 1), 'the record of calls has the wrong number of writing calls');
}

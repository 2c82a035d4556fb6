// The real children, once: how each is started, and what it needs in the temporary home.
// make-home.mjs writes these down as definitions; direct.test.mjs starts them without Switchboard.

import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const beside = name => fileURLToPath(new URL(name, import.meta.url));
const npm = (name, ...args) => ({
    cmd: process.execPath,
    args: [beside(`.cache/npm/node_modules/@modelcontextprotocol/${name}/dist/index.js`), ...args],
});
const pypi = (module, ...args) => ({ cmd: beside('.cache/python/bin/python'), args: ['-m', module, ...args] });

/** Where the children of one run keep what they work on. */
export const places = home => ({
    files: join(home, 'files'),
    repo: join(home, 'repo'),
    memory: join(home, 'memory.jsonl'),
    tap: join(home, 'tap.log'),
});

export function children(home) {
    const { files, repo, memory, tap } = places(home);
    const framed = npm('server-everything');
    return {
        everything: {
            description: 'the reference server with one of everything',
            ...npm('server-everything'),
            env: { INTEROP_DECLARED: 'by the definition' },
        },
        filesystem: { description: 'files of one folder', ...npm('server-filesystem', files), env: {} },
        memory: { description: 'a knowledge graph', ...npm('server-memory'), env: { MEMORY_FILE_PATH: memory } },
        time: { description: 'clocks and time zones', ...pypi('mcp_server_time', '--local-timezone', 'UTC'), env: {} },
        git: { description: 'one repository', ...pypi('mcp_server_git', '--repository', repo), env: {} },
        framed: {
            description: 'the reference server behind Content-Length headers',
            cmd: framed.cmd,
            args: [beside('content-length-child.mjs'), ...framed.args],
            env: { TAP: tap },
        },
    };
}

/** A folder for the filesystem server, and a repository with one commit and one new file for git's. */
export function furnish(home) {
    const { files, repo } = places(home);
    mkdirSync(files, { recursive: true });
    const git = (...args) =>
        execFileSync('git', ['-C', repo, '-c', 'user.name=Interop', '-c', 'user.email=interop@example.invalid', ...args], {
            env: { PATH: process.env.PATH, HOME: home, GIT_CONFIG_NOSYSTEM: '1' },
        });
    mkdirSync(repo);
    git('init', '--quiet', '--initial-branch=main');
    git('commit', '--quiet', '--allow-empty', '--message=first light');
    execFileSync('touch', [join(repo, 'not-yet-added')]);
}

// The MCP Inspector's command line, as a person types it: every question to the child itself, and to Switchboard by
// each way in. What it prints has to be the same.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { plain, withObjectOutput } from './era-checks.mjs';
import { bin, daemonWith, hasRun, throughDaemon } from './eras.mjs';
import { surroundings } from './hosts.mjs';

const INSPECTOR = fileURLToPath(new URL('.cache/npm/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js', import.meta.url));

/** What is asked, and how where the tool is behind a suite. */
const QUESTIONS = {
    'tools/list': ['--method', 'tools/list'],
    'tools/call': ['--method', 'tools/call', '--tool-name', 'greet', '--tool-arg', 'name=Łódź'],
    'resources/list': ['--method', 'resources/list'],
    'resources/read': ['--method', 'resources/read', '--uri', 'test://static-text'],
    'prompts/list': ['--method', 'prompts/list'],
    'prompts/get': ['--method', 'prompts/get', '--prompt-name', 'test_prompt_with_arguments', '--prompt-args', 'arg1=one', 'arg2=two'],
};
const BY_SUITE = {
    ...QUESTIONS,
    'tools/call': ['--method', 'tools/call', '--tool-name', 'era_suite', '--tool-args-json', JSON.stringify({ action: 'call', subtool: 'greet', args: { name: 'Łódź' } })],
};

const WAYS = {
    'shim --child': ({ socket }) => [surroundings().shim, '--socket', socket, '--no-start', '--child', 'era'],
    shim: ({ socket }) => [surroundings().shim, '--socket', socket, '--no-start'],
    '/mcp/{child}': ({ tcp, token }) => [`${tcp}/mcp/era`, '--transport', 'http', '--header', `Authorization: Bearer ${token}`],
    '/mcp': ({ tcp, token }) => [`${tcp}/mcp`, '--transport', 'http', '--header', `Authorization: Bearer ${token}`],
};

describe('the Inspector', { concurrency: 2 }, () => {
    for (const era of ['legacy', 'modern']) describe(`${era} child`, { concurrency: 3 }, () => matrix(era));
});

function matrix(child) {
    let daemon;
    const direct = {};
    before(async () => {
        daemon = await daemonWith(child, `inspector ${child}`);
        // In the child's own era: it has no other.
        await Promise.all(Object.entries(QUESTIONS).map(async ([title, question]) => {
            direct[title] = await inspect(daemon, child, [join(bin(), 'era-child'), '--era', child], question);
        }));
        const host = await throughDaemon('SDK 1.x', 'shim', daemon);
        await hasRun(host);
        await host.close();
    });
    after(() => daemon?.stop());

    for (const [way, target] of Object.entries(WAYS)) {
        const isSuite = !way.includes('child');
        for (const [title, question] of Object.entries(isSuite ? BY_SUITE : QUESTIONS)) {
            // The era that the child does not speak shows most.
            const hosts = title === 'tools/call' ? ['legacy', 'modern'] : [child === 'legacy' ? 'modern' : 'legacy'];
            for (const host of hosts) {
                test(`${title} by ${way}, as a ${host} host`, async () => {
                    const printed = await inspect(daemon, host, target(daemon), question);
                    if (title !== 'tools/list') return assert.deepEqual(plain(printed), plain(direct[title]));
                    const tools = printed.tools;
                    if (isSuite) assert.deepEqual(tools.map(({ name }) => name), ['era_suite']);
                    else assert.deepEqual(tools, child === 'modern' ? direct[title].tools.map(withObjectOutput) : direct[title].tools);
                });
            }
        }
    }
}

/** Runs the Inspector and gives what it prints. */
async function inspect({ home }, era, target, question) {
    const args = [INSPECTOR, '--cli', ...target, '--protocol-era', era, ...question];
    const { stdout } = await promisify(execFile)(process.execPath, args, { env: { PATH: process.env.PATH, HOME: home }, cwd: home, timeout: 60_000 });
    return JSON.parse(stdout);
}

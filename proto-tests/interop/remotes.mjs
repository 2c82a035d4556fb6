// Servers that are reached over HTTP, from their start to their end, and what each of them is asked. A check gives
// back all that came of it; `remote.test.mjs` compares that with what the server itself says.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, connect } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { asks, briefly, failure, plain, WHOLE_LIST } from './era-checks.mjs';
import { suiteNames, surroundings } from './hosts.mjs';

const READY_MS = 20_000;
const beside = name => fileURLToPath(new URL(name, import.meta.url));
const EVERYTHING = beside('.cache/npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js');
const ADA = { action: 'accept', content: { name: 'Ada' } };

const everything = {
    era: 'legacy',
    echo: 'echo',
    progress: ['trigger-long-running-operation', { duration: 0.15, steps: 3 }],
    question: 'trigger-elicitation-request',
    prompt: { name: 'args-prompt', arguments: { city: 'Łódź', state: 'PL' } },
    resources: ['demo://resource/static/document/architecture.md', 'demo://resource/static/document/startup.md'],
};

/** The servers: what to start, where it answers, and the names of what it has. */
export const REMOTES = {
    'server-everything, Streamable HTTP': { ...everything, args: [EVERYTHING, 'streamableHttp'], type: 'http', path: '/mcp' },
    'server-everything, HTTP with SSE': { ...everything, args: [EVERYTHING, 'sse'], type: 'sse', path: '/sse' },
    'modern server, HTTP': {
        era: 'modern',
        args: [beside('modern-server.mjs')],
        type: 'http',
        path: '/mcp',
        echo: 'echo',
        progress: ['count', { steps: 3 }],
        question: 'greet',
        prompt: { name: 'weather', arguments: { city: 'Łódź' } },
        resources: ['test://poem'],
    },
};

/** Starts a server on a port of its own; `entry` is its definition, `stop` has it end. */
export async function startRemote({ args, type, path }) {
    const port = await freePort();
    const env = { PATH: process.env.PATH, HOME: surroundings().home, PORT: String(port) };
    const server = spawn(process.execPath, args, { env, stdio: 'ignore' });
    const ended = once(server, 'exit');
    const stop = async () => {
        assert.equal(server.exitCode ?? server.signalCode, null, 'the server ended by itself');
        server.kill('SIGKILL');
        await ended;
    };
    process.once('exit', () => server.kill('SIGKILL'));
    for (const end = Date.now() + READY_MS; !(await listens(port)); await pause(20)) {
        assert.equal(server.exitCode, null, 'the server ended at once');
        assert.ok(Date.now() < end, 'the server does not listen');
    }
    return { entry: { type, url: `http://127.0.0.1:${port}${path}` }, stop };
}

async function freePort() {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address();
    server.close();
    await once(server, 'close');
    return port;
}

async function listens(port) {
    const socket = connect(port, '127.0.0.1');
    try {
        await once(socket, 'connect');
        return true;
    } catch {
        return false;
    } finally {
        socket.destroy();
    }
}

/** The modern era has no tasks of this sort. */
const withoutTasks = ({ execution, ...tool }) => tool;

export const remoteChecks = ({ echo, progress: [counts, steps], question, prompt, resources }) => [
    ['who it is', ({ client, isSuite }) => {
        const { name, version } = client.getServerVersion();
        return isSuite ? { name } : { name, version, instructions: client.getInstructions() };
    }, (direct, { isSuite }) => isSuite ? { name: 'switchboard' } : direct],

    ['tools/list', async host => {
        const { tools } = await host.client.listTools();
        if (!host.isSuite) return tools;
        assert.deepEqual(suiteNames(tools), ['era_suite']);
        const { content } = await host.client.callTool({ name: 'era_suite', arguments: WHOLE_LIST });
        return JSON.parse(content[0].text).tools.map(briefly);
    }, (direct, { isSuite, isModern }) => isSuite ? direct.map(briefly) : isModern ? direct.map(withoutTasks) : direct],
    ['prompts/list', async ({ client }) => plain(await client.listPrompts())],
    ['resources/list', async ({ client }) => plain(await client.listResources())],
    ['resources/templates/list', async ({ client }) => plain(await client.listResourceTemplates())],

    ['a call', async host => {
        const result = plain(await host.call(echo, { message: 'Zażółć \u2028 "gęślą"' }));
        assert.equal(result.content[0].text, 'Echo: Zażółć \u2028 "gęślą"');
        return result;
    }],
    ['progress, in order and before the result', async host => {
        const from = host.arrived.length;
        const result = plain(await host.call(counts, steps, { onprogress: () => {} }));
        const arrived = host.arrived.slice(from);
        assert.ok('result' in arrived.at(-1), 'the result comes last');
        const reported = arrived.filter(({ method }) => method === 'notifications/progress')
            .map(({ params: { progressToken, _meta, ...step } }) => step);
        assert.deepEqual(reported.map(({ progress }) => progress), [1, 2, 3]);
        return { reported, result };
    }],
    ['elicitation, accepted', async host => {
        const seen = await asks(host, question, {}, { 'elicitation/create': ADA });
        assert.match(JSON.stringify(seen.result), /Ada/);
        return seen;
    }],
    ['elicitation, declined', host => asks(host, question, {}, { 'elicitation/create': { action: 'decline' } })],
    ['arguments that are wrong', async host => {
        const result = plain(await host.call(echo, { message: 42 }));
        assert.equal(result.isError, true);
        return result;
    }],
    ['an unknown tool', host => failure(host.call('no_such_tool')), (direct, { isSuite }) => isSuite ? /`no_such_tool`/ : direct],
    ['prompts/get', async ({ client }) => {
        const result = plain(await client.getPrompt(prompt));
        assert.match(result.messages[0].content.text, /Łódź/);
        return result;
    }],
    ['an unknown prompt', ({ client }) => failure(client.getPrompt({ name: 'no_such_prompt' })),
        (direct, { isSuite }) => isSuite ? /no_such_prompt/ : direct],
    ['resources/read', async ({ client }) => {
        const results = [];
        for (const uri of resources) results.push(plain(await client.readResource({ uri })));
        assert.ok(results.every(({ contents: [{ text }] }) => text.length > 10));
        return results;
    }],
    // The eras have a code each for this, and the SDK makes one of the other: it is read off the wire.
    // Who shows all children's resources knows by itself that there is none.
    ['an unknown resource', async ({ client, arrived }) => {
        await assert.rejects(client.readResource({ uri: 'test://no-such' }));
        return arrived.at(-1).error.code;
    }, (direct, { isModern, isSuite }) => isModern ? -32602 : isSuite ? -32002 : direct],
].map(([title, run, seen = direct => direct]) => ({ title, run, seen }));

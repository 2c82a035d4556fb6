// The official TypeScript SDK on the shim: StdioClientTransport, as editors start it.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { checks } from './checks.mjs';
import { children } from './children.mjs';
import { bySuite, CreateMessageRequestSchema, direct, ElicitRequestSchema, overShim, suiteNames, surroundings } from './hosts.mjs';
import { callId, cancelled, tapped, until } from './tap.mjs';

const { home } = surroundings();
const names = Object.keys(children(home));
const LONG = 'trigger-long-running-operation';
const isProgress = ({ method }) => method === 'notifications/progress';

describe('a host on the shim', () => {
    let host;
    before(async () => (host = await overShim()));
    after(() => host.close());

    test('initialize names Switchboard and the era', () => {
        assert.match(host.getServerVersion().name, /switchboard/i);
        assert.ok(host.getServerCapabilities().tools);
    });

    test('tools/list is one suite per child and nothing else', async () => {
        const { tools } = await host.listTools();
        assert.deepEqual(suiteNames(tools), names.map(name => `${name}_suite`).sort());
        for (const { inputSchema } of tools.filter(({ name }) => name.endsWith('_suite'))) {
            assert.deepEqual(Object.keys(inputSchema.properties), ['action', 'subtool', 'args', 'query']);
            assert.deepEqual(inputSchema.required, ['action']);
        }
        const { description } = tools.find(({ name }) => name === 'memory_suite');
        assert.match(description, /a knowledge graph/);
    });

    for (const child of names) {
        test(`${child}: introspect gives what the child itself lists`, async () => {
            const introspect = async more => {
                const { content } = await host.callTool({ name: `${child}_suite`, arguments: { action: 'introspect', ...more } });
                assert.equal(content.length, 1);
                return content[0].text;
            };
            const own = await direct(child === 'framed' ? 'everything' : child, home);
            const { tools } = await own.listTools();
            await own.close();
            const shown = JSON.parse(await introspect({ args: { verbosity: 'full' } })).tools;
            assert.deepEqual(
                shown.map(({ name, inputSchema }) => ({ name, inputSchema })),
                tools.map(({ name, inputSchema }) => ({ name, inputSchema })),
            );
            // Hosts cut long results: without being asked for more, all names come within 6,000 bytes.
            const brief = await introspect({});
            assert.ok(Buffer.byteLength(brief) <= 6_000, `${Buffer.byteLength(brief)} bytes`);
            for (const { name } of tools) assert.ok(brief.includes(name), name);
        });
    }

    for (const { title, run } of checks('shim', home)) test(title, () => run(bySuite(host)));

    test('a wrong subtool gets a sentence with the right one', async () => {
        const result = await bySuite(host)('everything', 'ecko', {});
        assert.equal(result.isError, true);
        assert.match(result.content[0].text, /`ecko`[^]*echo/);
    });

    test('a missing argument is named', async () => {
        const result = await bySuite(host)('everything', 'get-sum', { a: 1 });
        assert.equal(result.isError, true);
        assert.match(result.content[0].text, /`b`/);
    });

    test("a child's own error passes through with its data", async () => {
        const args = { url: 'https://example.invalid', elicitationId: 'interop', errorPath: true };
        const error = await bySuite(host)('everything', 'trigger-url-elicitation', args).then(assert.fail, error => error);
        assert.equal(error.code, -32042);
        assert.equal(error.data.elicitations.length, 1);
        assert.equal(error.data.elicitations[0].mode, 'url');
        assert.match(error.data.elicitations[0].message, /then retry the request/);
    });

    test('progress arrives in order and before the result', async () => {
        const from = host.arrived.length;
        const reported = [];
        const result = await bySuite(host)('everything', LONG, { duration: 0.5, steps: 5 }, {
            onprogress: ({ progress, total }) => reported.push([progress, total]),
        });
        assert.equal(result.content[0].text, 'Long running operation completed. Duration: 0.5 seconds, Steps: 5.');
        const steps = [1, 2, 3, 4, 5].map(step => [step, 5]);
        const arrived = host.arrived.slice(from);
        assert.deepEqual(arrived.filter(isProgress).map(({ params }) => [params.progress, params.total]), steps);
        assert.ok('result' in arrived[arrived.findLastIndex(isProgress) + 1], 'the result comes last');
        assert.deepEqual(reported.slice(0, 4), steps.slice(0, 4));
    });

    test('an abort reaches the child, and nothing more of that call comes back', async () => {
        const duration = 20.25;
        const abort = new AbortController();
        const call = bySuite(host)('framed', LONG, { duration, steps: 200 }, {
            signal: abort.signal,
            onprogress: () => abort.abort('enough'),
        });
        await assert.rejects(call, /enough/);
        await until(home, 'notifications/cancelled', messages => cancelled(messages, duration));
        const from = host.arrived.length;
        // The server goes on reporting progress for a call that nobody wants any more.
        const already = tapped(home).length;
        await until(home, 'progress after the cancel', messages =>
            messages.slice(already).filter(message => !message.to && isProgress(message)).length >= 3);
        await bySuite(host)('framed', 'echo', { message: 'still here' });
        assert.equal(host.arrived.length, from + 1, JSON.stringify(host.arrived.slice(from)));
    });
});

describe('questions of a child', () => {
    let host;
    let answer;
    const asked = [];
    before(async () => {
        host = await overShim({ capabilities: { elicitation: { form: {} }, sampling: {} } });
        const reply = async ({ params }) => {
            asked.push(params);
            return answer;
        };
        host.setRequestHandler(ElicitRequestSchema, reply);
        host.setRequestHandler(CreateMessageRequestSchema, reply);
    });
    after(() => host.close());

    test('an elicitation reaches the host, and its answer the child', async () => {
        answer = { action: 'accept', content: { name: 'Ada Lovelace', check: true, integer: 42 } };
        const { content } = await bySuite(host)('everything', 'trigger-elicitation-request', {});
        const { message, requestedSchema } = asked.pop();
        assert.equal(message, 'Please provide inputs for the following fields:');
        assert.deepEqual(requestedSchema.required, ['name']);
        assert.match(content[1].text, /- Name: Ada Lovelace\n- Agreed to terms: true\n/);
        assert.match(content[1].text, /- Favorite Integer: 42/);
    });

    test('so does a refusal', async () => {
        answer = { action: 'decline' };
        const { content } = await bySuite(host)('everything', 'trigger-elicitation-request', {});
        assert.match(content[0].text, /User declined/);
    });

    test('a sampling request reaches the host, and its answer the child', async () => {
        answer = { role: 'assistant', model: 'a-model', content: { type: 'text', text: 'forty-two' }, stopReason: 'endTurn' };
        const { content } = await bySuite(host)('everything', 'trigger-sampling-request', { prompt: 'why?', maxTokens: 7 });
        const { messages, maxTokens } = asked.pop();
        assert.equal(messages[0].content.text, 'Resource trigger-sampling-request context: why?');
        assert.equal(maxTokens, 7);
        assert.deepEqual(JSON.parse(content[0].text.replace('LLM sampling result: \n', '')), answer);
    });

    test('a host that can answer neither has them declined for it', async () => {
        const plain = await overShim();
        const elicited = await bySuite(plain)('everything', 'trigger-elicitation-request', {});
        assert.match(elicited.content[0].text, /User declined/);
        const sampled = await bySuite(plain)('everything', 'trigger-sampling-request', { prompt: 'why?' });
        assert.equal(sampled.isError, true);
        await plain.close();
    });
});

test('hosts with the same ids at the same time get their own answers', async () => {
    const hosts = await Promise.all(Array.from({ length: 4 }, () => overShim()));
    const calls = hosts.flatMap((host, h) =>
        Array.from({ length: 50 }, async (_, n) => {
            const message = `host ${h} call ${n}`;
            const { content } = await bySuite(host)('everything', 'echo', { message });
            assert.equal(content[0].text, `Echo: ${message}`);
        }),
    );
    await Promise.all(calls);
    await Promise.all(hosts.map(host => host.close()));
});

test('a host that leaves takes its call along, and its shim goes by itself', async () => {
    const duration = 20.5;
    const host = await overShim();
    const call = bySuite(host)('framed', LONG, { duration, steps: 2 });
    call.catch(() => {});
    await until(home, 'the call', messages => callId(messages, duration));
    const start = Date.now();
    await host.close();
    // Past 2 s the SDK would have sent SIGTERM: the end of its input alone must be enough.
    assert.ok(Date.now() - start < 2_000, 'the shim went at the end of its input');
    await until(home, 'notifications/cancelled', messages => cancelled(messages, duration));
});

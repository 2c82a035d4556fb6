// The official TypeScript SDK over Streamable HTTP against the registry endpoints: sessions, streams, questions.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { checks } from './checks.mjs';
import { children } from './children.mjs';
import { bySuite, CreateMessageRequestSchema, direct, ElicitRequestSchema, overHttp, plainly, suiteNames, surroundings } from './hosts.mjs';

const { home } = surroundings();
const names = Object.keys(children(home));
/** The SDK sees to an answer before the progress that came with it, and then knows its token no more. */
const notLate = ({ message }) => !/progress notification for an unknown token/.test(message);
const capabilities = { elicitation: { form: {} }, sampling: {} };

describe('a host on /mcp', () => {
    let host;
    before(async () => {
        host = await overHttp('/mcp', { capabilities });
        host.setRequestHandler(ElicitRequestSchema, () => ({ action: 'decline' }));
        host.setRequestHandler(CreateMessageRequestSchema, () => ({
            role: 'assistant',
            model: 'none',
            content: { type: 'text', text: 'as you like' },
        }));
    });
    after(() => host.close());

    test('tools/list is one suite per child', async () => {
        const { tools } = await host.listTools();
        assert.deepEqual(suiteNames(tools), names.map(name => `${name}_suite`).sort());
    });

    for (const { title, run } of checks('registry', home)) test(title, () => run(bySuite(host)));

    test('progress arrives in order and before the result', async () => {
        const from = host.arrived.length;
        const options = { onprogress: () => {} };
        await bySuite(host)('everything', 'trigger-long-running-operation', { duration: 0.3, steps: 3 }, options);
        const arrived = host.arrived.slice(from);
        const steps = arrived.filter(({ method }) => method === 'notifications/progress');
        assert.deepEqual(steps.map(({ params }) => [params.progress, params.total]), [[1, 3], [2, 3], [3, 3]]);
        assert.ok('result' in arrived.at(-1), 'the result comes last');
    });

    test('questions reach the host, and their answers the child', async () => {
        const declined = await bySuite(host)('everything', 'trigger-elicitation-request', {});
        assert.match(declined.content[0].text, /User declined/);
        const sampled = await bySuite(host)('everything', 'trigger-sampling-request', { prompt: 'well?' });
        assert.match(JSON.stringify(sampled), /as you like/);
    });

    test('prompts and resources of all children are there', async () => {
        const own = await direct('everything', home);
        const { prompts } = await own.listPrompts();
        const seen = (await host.listPrompts()).prompts.map(({ name }) => name);
        // Two of the children offer the same ones.
        for (const { name } of prompts) assert.ok(seen.includes(`everything_${name}`), `${name}: ${seen}`);
        const { resources } = await host.listResources();
        const { uri } = resources.find(({ uri }) => uri.startsWith('switchboard://everything/'));
        const { contents } = await host.readResource({ uri });
        const its = await own.readResource({ uri: uri.replace('switchboard://everything/', '') });
        assert.deepEqual(contents, its.contents.map(content => ({ ...content, uri })));
        await own.close();
    });

    test('the SDK found nothing to complain about', () => assert.deepEqual(host.complaints.filter(notLate), []));
});

describe('a host on /mcp/{child}', () => {
    const hosts = {};
    before(async () => {
        for (const name of names) hosts[name] = await overHttp(`/mcp/${name}`);
    });
    after(async () => {
        for (const host of Object.values(hosts)) {
            await host.transport.terminateSession();
            await host.close();
        }
    });

    for (const name of names) {
        test(`${name}: tools/list is the child's own`, async () => {
            const own = await direct(name === 'framed' ? 'everything' : name, home);
            assert.deepEqual(await hosts[name].listTools(), await own.listTools());
            await own.close();
        });
    }

    for (const { child, title, run } of checks('one', home)) test(title, () => run(plainly(hosts[child])));

    test('the SDK found nothing to complain about', () => {
        for (const name of names) assert.deepEqual(hosts[name].complaints, []);
    });
});

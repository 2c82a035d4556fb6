// The official TypeScript SDK over HTTP: StreamableHTTPClientTransport against the proxy routes, which answer
// plain JSON and never a stream.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { checks } from './checks.mjs';
import { children } from './children.mjs';
import { bySuite, direct, overHttp, plainly, suiteNames, surroundings } from './hosts.mjs';
import { callId, cancelled, until } from './tap.mjs';

const { home, tcp, token } = surroundings();
const names = Object.keys(children(home));

describe('a host on /proxy', () => {
    let host;
    before(async () => (host = await overHttp('/proxy')));
    after(() => host.close());

    test('tools/list is one suite per child', async () => {
        const { tools } = await host.listTools();
        assert.deepEqual(suiteNames(tools), names.map(name => `${name}_suite`).sort());
    });

    for (const { title, run } of checks('http', home)) test(title, () => run(bySuite(host)));

    test('a question that it could not hear is declined, and nothing hangs', async () => {
        const { content } = await bySuite(host)('everything', 'trigger-elicitation-request', {});
        assert.match(content[0].text, /User declined/);
    });

    test('the SDK found nothing to complain about', () => assert.deepEqual(host.complaints, []));
});

describe('a host on /proxy/{child}', () => {
    const hosts = {};
    before(async () => {
        for (const name of names) hosts[name] = await overHttp(`/proxy/${name}`);
    });
    after(() => Promise.all(Object.values(hosts).map(host => host.close())));

    for (const name of names) {
        test(`${name}: tools/list is the child's own`, async () => {
            const own = await direct(name === 'framed' ? 'everything' : name, home);
            assert.deepEqual(await hosts[name].listTools(), await own.listTools());
            await own.close();
        });
    }

    for (const { child, title, run } of checks('child', home)) test(title, () => run(plainly(hosts[child])));

    test('prompts and resources are the child’s own too', async () => {
        const own = await direct('everything', home);
        const host = hosts.everything;
        assert.deepEqual(await host.listPrompts(), await own.listPrompts());
        const prompt = { name: 'args-prompt', arguments: { city: 'Łódź' } };
        assert.deepEqual(await host.getPrompt(prompt), await own.getPrompt(prompt));
        assert.deepEqual(await host.listResourceTemplates(), await own.listResourceTemplates());
        const { resources } = await own.listResources();
        const { uri } = resources[0];
        assert.deepEqual(await host.readResource({ uri }), await own.readResource({ uri }));
        await own.close();
    });

    test('the SDK found nothing to complain about', () => {
        for (const name of names) assert.deepEqual(hosts[name].complaints, []);
    });
});

describe('the gate', () => {
    for (const [title, wrong] of [['without a token', ''], ['with a wrong token', 'x'.repeat(token.length)]]) {
        test(`${title} the SDK is refused`, async () => {
            const error = await overHttp('/proxy', { token: wrong }).then(assert.fail, error => error);
            assert.equal(error.code, 401);
        });
    }

    test('a body that is not JSON is answered at once', async () => {
        const headers = { Authorization: `Bearer ${token}` };
        const response = await fetch(new URL('/proxy', tcp), { method: 'POST', headers, body: '{"incomplete": json' });
        assert.equal(response.status, 400);
        assert.deepEqual(await response.json(), {
            jsonrpc: '2.0',
            error: { code: -32700, message: 'Parse error' },
            id: null,
        });
    });
});

test('a closed connection cancels its call in the child', async () => {
    const duration = 20.75;
    const host = await overHttp('/proxy/framed');
    const call = plainly(host)('framed', 'trigger-long-running-operation', { duration, steps: 2 });
    call.catch(() => {});
    await until(home, 'the call', messages => callId(messages, duration));
    await host.close();
    await until(home, 'notifications/cancelled', messages => cancelled(messages, duration));
});

// Servers of the official TypeScript packages as remote children: the reference server over Streamable HTTP and over
// the older HTTP with SSE, and a modern one. Every client asks each of them by every way, and each answer is
// compared, whole, with what the server itself says to the same client, or to the one that speaks its era.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { CLIENTS, daemonOf, MODERN, throughDaemon, WAYS, withoutDaemonAt } from './eras.mjs';
import { SHARED_CAPABILITIES } from './hosts.mjs';
import { remoteChecks, REMOTES, startRemote } from './remotes.mjs';

const SPEAKS_MODERN = 'SDK 2.x, auto';

describe('any host with a remote server', { concurrency: 3 }, () => {
    for (const [name, kind] of Object.entries(REMOTES)) describe(name, { concurrency: 1 }, () => remote(name, kind));
});

function remote(name, kind) {
    let server;
    before(async () => (server = await startRemote(kind)));
    after(() => server?.stop());
    for (const client of Object.keys(CLIENTS)) {
        describe(client, () => matrix(client, kind, `remote ${name} ${client}`, () => server.entry));
    }
}

function matrix(client, kind, name, entry) {
    const direct = new Map();
    const checks = remoteChecks(kind);

    describe('without Switchboard', () => {
        const speaks = kind.era === 'legacy' || CLIENTS[client].revision === MODERN ? client : SPEAKS_MODERN;
        let host;
        before(async () => (host = await withoutDaemonAt(speaks, kind.era, entry())));
        after(() => host?.close());
        for (const { title, run } of checks) test(title, async () => direct.set(title, await run(host)));
    });

    for (const way of Object.keys(WAYS)) {
        describe(way, () => {
            let daemon;
            let host;
            before(async () => {
                daemon = await daemonOf(entry(), `${name} ${way}`);
                host = await throughDaemon(client, way, daemon, SHARED_CAPABILITIES);
                if (WAYS[way].isSuite) await hasRun(host, kind);
            });
            after(async () => {
                await host?.close();
                await daemon?.stop();
            });
            for (const { title, run, seen } of checks) {
                test(title, async () => {
                    assert.ok(direct.has(title), 'the server itself answers');
                    const expected = seen(direct.get(title), host);
                    const got = await run(host);
                    if (expected instanceof RegExp) assert.match(JSON.stringify(got), expected);
                    else assert.deepEqual(got, expected);
                });
            }
        });
    }
}

/** No list waits for a server that was never used: what it offers is seen once it was. */
async function hasRun(host, { echo }) {
    await host.call(echo, { message: 'hello' });
    for (const end = Date.now() + 10_000; Date.now() < end; await pause(10)) {
        const { resources } = await host.client.listResources();
        if (resources.length) return;
    }
    throw new Error('what the server offers is not seen within 10 s');
}

// Every client with every child by every way: the official TypeScript clients of both generations, a child of each
// era, through the shim and over HTTP, one child as it is and as a suite. Each answer is compared, whole, with what
// the child itself says to the same client, or to the one that speaks its era.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { CHECKS } from './era-checks.mjs';
import { CLIENTS, daemonWith, hasRun, journal, MODERN, throughDaemon, WAYS, withoutDaemon } from './eras.mjs';

const SPEAKS_MODERN = 'SDK 2.x, auto';

describe('any host with any child', { concurrency: 4 }, () => {
    for (const client of Object.keys(CLIENTS)) {
        for (const era of ['legacy', 'modern']) describe(`${client}, ${era} child`, { concurrency: 1 }, () => matrix(client, era));
    }
});

function matrix(client, era) {
    const name = `${client} ${era}`;
    const direct = new Map();

    describe('without Switchboard', () => {
        const speaks = era === 'legacy' || CLIENTS[client].revision === MODERN ? client : SPEAKS_MODERN;
        let host;
        before(async () => (host = await withoutDaemon(speaks, era, name)));
        after(() => host?.close());
        for (const { title, run } of CHECKS) {
            test(title, async () => direct.set(title, counted(await run(host, () => journal(host.journal)))));
        }
    });

    for (const way of Object.keys(WAYS)) {
        describe(way, () => {
            let daemon;
            let host;
            before(async () => {
                // One host's roots reach no child that others share.
                daemon = await daemonWith(era, `${name} ${way}`, { scope: 'session' });
                host = await throughDaemon(client, way, daemon);
                if (WAYS[way].isSuite) await hasRun(host);
            });
            after(async () => {
                await host?.close();
                await daemon?.stop();
            });
            for (const { title, run, seen } of CHECKS) {
                test(title, async () => {
                    assert.ok(direct.has(title), 'the child itself answers');
                    const expected = seen(direct.get(title), host, era);
                    const got = counted(await run(host, () => journal(daemon.journal)));
                    if (expected instanceof RegExp) assert.match(JSON.stringify(got), expected);
                    else assert.deepEqual(got, expected);
                });
            }
        });
    }
}

/** How often something changed depends on who else was there. */
function counted(value) {
    if (value === undefined) return value;
    return JSON.parse(JSON.stringify(value).replaceAll(/(so far: |for the |version |cancelled\\*":)\d+/g, (_, before) => `${before}0`));
}

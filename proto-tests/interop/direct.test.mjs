// The children alone, without Switchboard. If this fails, a pin or this machine is at fault and nothing else is.

import { after, before, describe, test } from 'node:test';
import { checks } from './checks.mjs';
import { children } from './children.mjs';
import { direct, plainly } from './hosts.mjs';

const home = process.env.SWITCHBOARD_INTEROP_HOME;

describe('the children without Switchboard', () => {
    const hosts = {};
    before(async () => {
        // The SDK reads newlines only: the framed child is for Switchboard to read.
        for (const name of Object.keys(children(home))) {
            if (name !== 'framed') hosts[name] = await direct(name, home);
        }
    });
    after(() => Promise.all(Object.values(hosts).map(host => host.close())));

    for (const { child, title, run } of checks('direct', home)) {
        if (child !== 'framed') test(title, () => run(plainly(hosts[child])));
    }
});

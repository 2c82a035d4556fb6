// usage: node make-home.mjs HOME
//
// Furnishes HOME for one run: what the children work on, and their definitions as a person would keep them,
// in .config/switchboard/mcps/*/.mcp.json. Both shapes that this version reads are among them.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { children, furnish } from './children.mjs';

/** The children that share a file in the `mcpServers` shape; every other has one of its own. */
const TOGETHER = { python: ['time', 'git'] };

/** The machine is shared with other tests: a Python server may take longer to start than a user would wait. */
const CONFIG = { timeouts: { childSpawnMs: 60_000 } };

export function makeHome(home) {
    furnish(home);
    const config = join(home, '.config', 'switchboard');
    mkdirSync(config, { recursive: true, mode: 0o700 });
    writeFileSync(join(config, 'switchboard.config.json'), JSON.stringify(CONFIG, null, 2) + '\n', { mode: 0o600 });
    const all = children(home);
    for (const [folder, names] of Object.entries(TOGETHER)) {
        const entries = names.map(name => {
            const { cmd, ...rest } = all[name];
            return [name, { command: cmd, ...rest }];
        });
        write(home, folder, { mcpServers: Object.fromEntries(entries) });
        names.forEach(name => delete all[name]);
    }
    for (const [name, { description, ...command }] of Object.entries(all)) {
        write(home, name, { name, description, command });
    }
}

function write(home, folder, definition) {
    const at = join(home, '.config', 'switchboard', 'mcps', folder);
    mkdirSync(at, { recursive: true, mode: 0o700 });
    writeFileSync(join(at, '.mcp.json'), JSON.stringify(definition, null, 2) + '\n', { mode: 0o600 });
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
    if (!process.argv[2]) {
        console.error('usage: node make-home.mjs HOME');
        process.exit(2);
    }
    makeHome(process.argv[2]);
}

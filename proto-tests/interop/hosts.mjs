// The official TypeScript SDK as host, by the three ways in that the tests compare:
// through the shim, over HTTP, and straight to a child without Switchboard.

import { createRequire } from 'node:module';
import { children } from './children.mjs';

const sdk = createRequire(new URL('.cache/npm/package.json', import.meta.url));
const { Client } = sdk('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = sdk('@modelcontextprotocol/sdk/client/stdio.js');
const { StreamableHTTPClientTransport } = sdk('@modelcontextprotocol/sdk/client/streamableHttp.js');
export const { CreateMessageRequestSchema, ElicitRequestSchema } = sdk('@modelcontextprotocol/sdk/types.js');

const identity = { name: 'switchboard-interop', version: '1.0.0' };
/** What Switchboard tells a child that many sessions share; a child's list of tools depends on it. */
export const SHARED_CAPABILITIES = { elicitation: { form: {}, url: {} }, sampling: {} };

/** What the caller of these tests has started and set; see README.md. */
export function surroundings() {
    const wanted = {
        shim: 'SWITCHBOARD_BIN',
        socket: 'SWITCHBOARD_SOCKET',
        tcp: 'SWITCHBOARD_TCP',
        token: 'SWITCHBOARD_TOKEN',
        home: 'SWITCHBOARD_INTEROP_HOME',
    };
    return Object.fromEntries(
        Object.entries(wanted).map(([key, name]) => {
            if (!process.env[name]) throw new Error(`${name} is not set: start these tests with run.sh`);
            return [key, process.env[name]];
        }),
    );
}

/** A host on its own shim. The daemon is already there; a shim that started another would hide a crash. */
export async function overShim({ capabilities = {} } = {}) {
    const { shim, socket, home } = surroundings();
    const env = { HOME: home, SWITCHBOARD_SOCKET: socket, INTEROP_HOST_SECRET: 'of the host' };
    return connect(new StdioClientTransport({ command: shim, args: ['--no-start'], env, cwd: home }), capabilities);
}

/** A host on a route of the front door: `/proxy`, `/mcp`, or one of those with a child. */
export async function overHttp(route, { token = surroundings().token, capabilities = {} } = {}) {
    const requestInit = token ? { headers: { Authorization: `Bearer ${token}` } } : {};
    const transport = new StreamableHTTPClientTransport(new URL(route, surroundings().tcp), { requestInit });
    return connect(transport, capabilities);
}

/** A host on the child itself, told what Switchboard tells it. */
export async function direct(name, home) {
    const { cmd, args, env } = children(home)[name];
    return connect(
        new StdioClientTransport({ command: cmd, args, env: { ...env, HOME: home, TAP: '' }, stderr: 'ignore' }),
        SHARED_CAPABILITIES,
    );
}

async function connect(transport, capabilities) {
    const client = new Client(identity, { capabilities });
    client.complaints = [];
    client.onerror = error => client.complaints.push(error);
    await client.connect(transport);
    // The SDK sees to an answer before the notifications that came with it, and so can lose the last progress:
    // what came over the wire, and in which order, is written down before it.
    client.arrived = [];
    const seeTo = transport.onmessage;
    transport.onmessage = (message, extra) => {
        client.arrived.push(message);
        seeTo(message, extra);
    };
    return client;
}

/** How a tool is called on a face: by its own name, or through its child's suite. */
export const plainly = client => (_child, name, args, options) =>
    client.callTool({ name, arguments: args }, undefined, options);
export const bySuite = client => async (child, subtool, args, options) => {
    const call = name => client.callTool({ name, arguments: { action: 'call', subtool, args } }, undefined, options);
    const result = await call(`${child}_suite`);
    const other = rightTool(result);
    return other ? call(other) : result;
};

/** A server that marks what it only reads has a second tool for what writes: the one that a refusal names. */
export const rightTool = ({ isError, content }) =>
    isError ? content[0]?.text?.match(/call it with `(\w+_suite_write)`/)?.[1] : undefined;

/** The names of the suites in a list; each may have a second tool for what writes. */
export const suiteNames = tools => tools.map(({ name }) => name).filter(name => !name.endsWith('_suite_write')).sort();

// Hosts and children of both eras: the official TypeScript clients of both generations, and every way in that
// they can take to the fixture child: to the child itself, through the shim, over HTTP.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { startDaemon } from './daemon.mjs';
import { rightTool, SHARED_CAPABILITIES, surroundings } from './hosts.mjs';

const installed = createRequire(new URL('.cache/npm/package.json', import.meta.url));
const one = {
    ...installed('@modelcontextprotocol/sdk/client/index.js'),
    ...installed('@modelcontextprotocol/sdk/client/stdio.js'),
    ...installed('@modelcontextprotocol/sdk/client/streamableHttp.js'),
    ...installed('@modelcontextprotocol/sdk/client/sse.js'),
    ...installed('@modelcontextprotocol/sdk/types.js'),
};
const two = { ...installed('@modelcontextprotocol/client'), ...installed('@modelcontextprotocol/client/stdio') };

export const LEGACY = '2025-11-25';
export const MODERN = '2026-07-28';
const identity = { name: 'switchboard-interop', version: '1.0.0' };
const ALL_CAPABILITIES = { ...SHARED_CAPABILITIES, roots: {} };

/** The clients, with the revision that they get to with a server that has both. */
export const CLIENTS = {
    'SDK 1.x': { sdk: one, revision: LEGACY },
    'SDK 2.x': { sdk: two, revision: LEGACY },
    'SDK 2.x, auto': { sdk: two, revision: MODERN, mode: 'auto' },
    'SDK 2.x, pinned': { sdk: two, revision: MODERN, mode: { pin: MODERN } },
};

/** The ways in. One child as it is, or all of them, which here are one: its prompts and resources keep their names. */
export const WAYS = {
    'shim --child': { isSuite: false, transport: (sdk, daemon) => shim(sdk, daemon, '--child', 'era') },
    '/mcp/{child}': { isSuite: false, transport: (sdk, daemon) => http(sdk, daemon, '/mcp/era') },
    shim: { isSuite: true, transport: (sdk, daemon) => shim(sdk, daemon) },
    '/mcp': { isSuite: true, transport: (sdk, daemon) => http(sdk, daemon, '/mcp') },
};

export const bin = () => dirname(surroundings().shim);

/** A daemon in a home of its own below that of the run, with one child that speaks this era. */
export async function daemonWith(era, name, pool = {}) {
    const journal = join(homeOf(name), 'journal');
    const entry = { command: join(bin(), 'era-child'), args: ['--era', era], env: { ERA_JOURNAL: journal } };
    return { journal, ...(await daemonOf(entry, name, pool)) };
}

/** The same with a child as this entry defines it; its name is `era` here, too. */
export async function daemonOf(entry, name, pool = {}) {
    const home = homeOf(name);
    const config = join(home, '.config', 'switchboard');
    mkdirSync(join(config, 'mcps', 'era'), { recursive: true, mode: 0o700 });
    const write = (path, value) => writeFileSync(join(config, path), JSON.stringify(value), { mode: 0o600 });
    write('mcps/era/.mcp.json', { mcpServers: { era: entry } });
    write('switchboard.config.json', { suites: { era: { pool } } });
    return { home, ...(await startDaemon(bin(), home)) };
}

const homeOf = name => join(surroundings().home, slug(name));

/** All that the child of this journal was told. */
export function journal(file) {
    if (!existsSync(file)) return [];
    return readFileSync(file, 'utf8').split('\n').slice(0, -1).map(line => JSON.parse(line));
}

export const throughDaemon = (client, way, daemon, capabilities) =>
    connect(CLIENTS[client], WAYS[way].transport(CLIENTS[client].sdk, daemon), WAYS[way].isSuite, capabilities);

/** No list waits for a child that never ran: what it offers is seen once it has. */
export async function hasRun(host) {
    await host.call('test_simple_text');
    for (const end = Date.now() + 10_000; Date.now() < end; await pause(10)) {
        const { resourceTemplates } = await host.client.listResourceTemplates();
        if (resourceTemplates.length) return;
    }
    throw new Error('what the child offers is not seen within 10 s');
}

/** The same client on the child itself; a legacy one where the child is. */
export async function withoutDaemon(client, era, name) {
    const { sdk } = CLIENTS[client];
    const { home } = surroundings();
    const journal = join(home, `${slug(name)}-direct.journal`);
    const transport = stdio(sdk, join(bin(), 'era-child'), ['--era', era], home, { ERA_JOURNAL: journal });
    const host = await connect(era === 'legacy' ? { sdk, revision: LEGACY } : CLIENTS[client], transport, false);
    return Object.assign(host, { journal });
}

/** The same client on a remote server itself; a legacy one where the server is. */
export function withoutDaemonAt(client, era, { type, url }) {
    const { sdk } = CLIENTS[client];
    const Transport = type === 'sse' ? sdk.SSEClientTransport : sdk.StreamableHTTPClientTransport;
    const speaker = era === 'legacy' ? { sdk, revision: LEGACY } : CLIENTS[client];
    return connect(speaker, new Transport(new URL(url)), false, SHARED_CAPABILITIES);
}

const slug = name => name.replaceAll(/[^\w]+/g, '-');

function stdio(sdk, command, args, home, env = {}) {
    return new sdk.StdioClientTransport({ command, args, env: { HOME: home, ...env }, cwd: home, stderr: 'ignore' });
}

function shim(sdk, { socket, home }, ...args) {
    return stdio(sdk, surroundings().shim, ['--socket', socket, '--no-start', ...args], home);
}

function http(sdk, { tcp, token }, route) {
    const requestInit = { headers: { Authorization: `Bearer ${token}` } };
    return new sdk.StreamableHTTPClientTransport(new URL(route, tcp), { requestInit });
}

async function connect({ sdk, revision, mode }, transport, isSuite, capabilities = ALL_CAPABILITIES) {
    const client = new sdk.Client(identity, { capabilities, ...(mode && { versionNegotiation: { mode } }) });
    const isHttp = transport instanceof sdk.StreamableHTTPClientTransport;
    const host = new Host(client, { revision, isSuite, isFirst: sdk === one, isHttp });
    const handler = sdk === one
        ? { 'elicitation/create': one.ElicitRequestSchema, 'sampling/createMessage': one.CreateMessageRequestSchema, 'roots/list': one.ListRootsRequestSchema }
        : { 'elicitation/create': 'elicitation/create', 'sampling/createMessage': 'sampling/createMessage', 'roots/list': 'roots/list' };
    for (const [method, key] of Object.entries(handler)) {
        if (!(method.split('/')[0] in capabilities)) continue;
        client.setRequestHandler(key, ({ params }) => host.isAsked(method, params));
    }
    client.onerror = error => host.complaints.push(error);
    client.fallbackNotificationHandler = async notification => void host.heard.push(notification);
    await client.connect(transport);
    // What came over the wire, before the SDK sees to it.
    const seeTo = transport.onmessage;
    transport.onmessage = (message, extra) => {
        host.arrived.push(message);
        seeTo(message, extra);
    };
    return host;
}

export class Host {
    arrived = [];
    heard = [];
    complaints = [];
    /** The questions so far, and the answer to the next ones by their method. */
    asked = [];
    answers = {};

    constructor(client, { revision, isSuite, isFirst, isHttp }) {
        Object.assign(this, { client, revision, isSuite, isFirst, isModern: revision === MODERN, isHttp });
    }

    isAsked(method, { _meta, ...params } = {}) {
        this.asked.push({ method, ...params });
        // Switchboard asks for roots where it knows no project.
        const answer = this.answers[method] ?? (method === 'roots/list' ? { roots: [] } : undefined);
        return typeof answer === 'function' ? answer(params) : answer;
    }

    /** Calls a tool of the child, through its suite where that is what the host sees. */
    async call(name, args = {}, { _meta, ...options } = {}) {
        const send = params => {
            if (_meta) params._meta = _meta;
            return this.isFirst ? this.client.callTool(params, undefined, options) : this.client.callTool(params, options);
        };
        if (!this.isSuite) return send({ name, arguments: args });
        const bySuite = suite => send({ name: suite, arguments: { action: 'call', subtool: name, args } });
        const result = await bySuite('era_suite');
        const other = rightTool(result);
        return other ? bySuite(other) : result;
    }

    async close() {
        if (this.isHttp && !this.isModern) await this.client.transport.terminateSession();
        await this.client.close();
    }
}

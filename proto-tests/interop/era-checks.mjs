// What a host asks the fixture child, whichever its client and its way in are. A check gives back all that came
// of it; `eras.test.mjs` compares that with what the same question gets from the child itself.

import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';

const WATCHED = 'test://watched-resource';
const ADA = { action: 'accept', content: { name: 'Ada' } };
const ROOTS = { roots: [{ uri: 'file:///somewhere', name: 'somewhere' }] };
const REPLY = { role: 'assistant', model: 'a-model', content: { type: 'text', text: 'forty-two' }, stopReason: 'endTurn' };

/** Whole definitions, as the child wrote them. */
export const WHOLE_LIST = { action: 'introspect', args: { verbosity: 'full' } };

/** How an answer of a child looks to a host of the other era; `direct` is what the child itself said. */
const AS_IT_IS = direct => direct;

export const CHECKS = [
    ['who it is', async ({ client, isSuite }) => {
        const { name, version } = client.getServerVersion();
        if (isSuite) return { name, offers: Object.keys(client.getServerCapabilities()).sort() };
        const { extensions, ...capabilities } = client.getServerCapabilities();
        return { name, version, capabilities, instructions: client.getInstructions() };
    }, (direct, { isSuite }) => isSuite ? { name: 'switchboard', offers: Object.keys(direct.capabilities).sort() } : direct],

    ['tools/list', async host => {
        if (!host.isSuite) return (await host.client.listTools()).tools;
        const { tools } = await host.client.listTools();
        assert.deepEqual(tools.map(({ name }) => name), ['era_suite']);
        const { content } = await host.client.callTool({ name: 'era_suite', arguments: WHOLE_LIST });
        return JSON.parse(content[0].text).tools.map(briefly);
    }, (direct, host, era) => {
        if (host.isSuite) return direct.map(briefly);
        return host.isModern || era === 'legacy' ? direct : direct.map(withObjectOutput);
    }],

    ['prompts/list', async ({ client }) => plain(await client.listPrompts())],
    ['resources/list', async ({ client }) => plain(await client.listResources())],
    ['resources/templates/list', async ({ client }) => plain(await client.listResourceTemplates())],

    ...['test_simple_text', 'test_image_content', 'test_audio_content', 'test_embedded_resource', 'test_multiple_content_types', 'test_error_handling']
        .map(tool => [`tools/call ${tool}`, async host => plain(await host.call(tool))]),
    // Switchboard tells a child in its own words that a host has roots.
    ['what the child knows of its host', async host => {
        const { revision, clientCapabilities: { roots, ...capabilities } } = (await host.call('test_report')).structuredContent;
        return { revision, hasRoots: roots !== undefined, capabilities };
    }],
    ['tools/call with arguments', async host =>
        plain(await host.call('json_schema_2020_12_tool', { name: 'Zażółć \u2028', address: { street: 'ul. Łąkowa', city: 'Łódź' } }))],
    ['tools/call with arguments that are headers', async host =>
        plain(await host.call('test_header_params', { region: 'Łódź, eu', count: 42 }))],
    // Legacy output is an object.
    ['tools/call with structure', async host => plain(await host.call('test_structured_list')),
        (direct, { isModern }, era) =>
            isModern || era === 'legacy' ? direct : { ...direct, structuredContent: { result: direct.structuredContent } }],
    ['an unknown tool', host => failure(host.call('no_such_tool')),
        (direct, { isSuite }) => isSuite ? /`no_such_tool`/ : direct],

    ['prompts/get', async ({ client }) => [
        plain(await client.getPrompt({ name: 'test_simple_prompt' })),
        plain(await client.getPrompt({ name: 'test_prompt_with_arguments', arguments: { arg1: 'one', arg2: 'Łódź' } })),
        plain(await client.getPrompt({ name: 'test_prompt_with_embedded_resource', arguments: { resourceUri: 'test://static-text' } })),
        plain(await client.getPrompt({ name: 'test_prompt_with_image' })),
    ]],
    ['an unknown prompt', ({ client }) => failure(client.getPrompt({ name: 'no_such_prompt' })),
        (direct, { isSuite }) => isSuite ? /no_such_prompt/ : direct],
    ['resources/read', async ({ client }) => [
        plain(await client.readResource({ uri: 'test://static-text' })),
        plain(await client.readResource({ uri: 'test://static-binary' })),
        plain(await client.readResource({ uri: WATCHED })),
        plain(await client.readResource({ uri: 'test://template/Łódź/data' })),
    ]],
    // The eras have a code each for this; who shows all children's resources knows by itself that there is none.
    ['an unknown resource', async ({ client }) => (await failure(client.readResource({ uri: 'test://no-such' }))).code,
        // The SDK of the second generation has an error of its own for it.
        (direct, { isModern, isSuite }) => isModern ? -32602 : isSuite ? /^-32[06]02$/ : direct],

    ['completion', async ({ client }) => [
        plain(await client.complete({ ref: { type: 'ref/prompt', name: 'test_prompt_with_arguments' }, argument: { name: 'arg1', value: 'par' } })),
        plain(await client.complete({ ref: { type: 'ref/resource', uri: 'test://template/{id}/data' }, argument: { name: 'id', value: '12' } })),
    ]],

    ['progress, in order and before the result', async host => {
        const from = host.arrived.length;
        const reported = [];
        const result = await host.call('test_tool_with_progress', {}, { onprogress: progress => reported.push(progress) });
        const arrived = host.arrived.slice(from);
        assert.ok('result' in arrived.at(-1), 'the result comes last');
        const steps = arrived.filter(({ method }) => method === 'notifications/progress')
            .map(({ params: { progressToken, _meta, ...step } }) => step);
        assert.equal(steps.length, 3);
        // The SDK sees to an answer before what came with it: it may tell less, and tells nothing else.
        assert.deepEqual(reported, steps.slice(0, reported.length));
        return { steps, result: plain(result) };
    }],

    ['elicitation, accepted', host => asks(host, 'test_input_required_result_elicitation', {}, { 'elicitation/create': ADA })],
    ['elicitation, declined', host => asks(host, 'test_elicitation', { message: 'Who?' }, { 'elicitation/create': { action: 'decline' } })],
    ['elicitation, cancelled', host => asks(host, 'test_elicitation', { message: 'Who?' }, { 'elicitation/create': { action: 'cancel' } })],
    ['elicitation, all sorts of choices', host => asks(host, 'test_elicitation_sep1330_enums', {}, {
        'elicitation/create': {
            action: 'accept',
            content: { untitledSingle: 'option1', titledSingle: 'value2', legacyEnum: 'opt3', untitledMulti: ['option1', 'option2'], titledMulti: ['value1'] },
        },
    })],
    ['elicitation by URL', async host => {
        const { result, asked: [{ elicitationId, ...question }] } = await asks(host, 'test_elicitation_url', {}, { 'elicitation/create': { action: 'accept' } });
        // The legacy era tells these questions apart by an id.
        assert.equal(elicitationId !== undefined, !host.isModern);
        return { result, question };
    }],
    ['elicitation, two rounds', host => asks(host, 'test_input_required_result_multi_round', {}, {
        'elicitation/create': ({ requestedSchema: { properties } }) => properties.name ? ADA : { action: 'accept', content: { color: 'blue' } },
    })],
    ['elicitation after progress', async host => {
        const from = host.arrived.length;
        const seen = await asks(host, 'test_streaming_elicitation', {}, { 'elicitation/create': ADA }, { onprogress: () => {} });
        const steps = host.arrived.slice(from).filter(({ method }) => method === 'notifications/progress');
        return { ...seen, steps: steps.map(({ params }) => params.message) };
    }],
    ['elicitation of a prompt', async host => {
        host.answers = { 'elicitation/create': { action: 'accept', content: { context: 'some' } } };
        host.asked.length = 0;
        const result = plain(await host.client.getPrompt({ name: 'test_input_required_result_prompt' }));
        return { result, asked: [...host.asked] };
    }],
    ['sampling', host => asks(host, 'test_sampling', { prompt: 'why?' }, { 'sampling/createMessage': REPLY })],
    ['roots', host => asks(host, 'test_input_required_result_list_roots', {}, { 'roots/list': ROOTS })],
    ['three questions at once', async host => {
        const { result, asked } = await asks(host, 'test_input_required_result_multiple_inputs', {},
            { 'elicitation/create': ADA, 'sampling/createMessage': REPLY, 'roots/list': ROOTS });
        return { result, asked: asked.sort((a, b) => a.method.localeCompare(b.method)) };
    }],

    ['subscription to a resource', async host => {
        const from = host.heard.length;
        // That lists changed may be heard as well: this session's child may have begun with others than the one before.
        const heard = () => host.heard.slice(from).filter(({ method }) => method === 'notifications/resources/updated')
            .map(({ params: { _meta, ...params } }) => params);
        const unsubscribe = await subscribe(host);
        await host.call('test_update_watched_resource');
        await until('the update', () => heard().length);
        await unsubscribe();
        await host.call('test_update_watched_resource');
        await host.call('test_reconnection'); // takes a moment
        assert.deepEqual(heard(), [{ uri: WATCHED }]);
        return plain(await host.client.readResource({ uri: WATCHED }));
    }],
    ['lists that change', async host => {
        const from = host.heard.length;
        const filter = { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true };
        const listening = host.isModern ? await host.client.listen(filter) : undefined;
        assert.deepEqual(listening?.honoredFilter ?? filter, filter);
        const before = await lists(host);
        for (const list of ['tool', 'prompt', 'resource']) await host.call(`test_trigger_${list}_change`);
        // A suite stays what it is when a tool behind it changes.
        const wanted = host.isSuite ? ['prompts', 'resources'] : ['tools', 'prompts', 'resources'];
        const isTold = list => host.heard.slice(from).some(({ method }) => method === `notifications/${list}/list_changed`);
        await until(() => `news of ${wanted.filter(list => !isTold(list))}`, () => wanted.every(isTold));
        const now = await lists(host);
        for (const list of wanted) assert.notDeepEqual(now[list], before[list]);
        await listening?.close();
        return now.prompts;
    }],
    ['logging', async host => {
        const levels = async level => {
            const from = host.heard.length;
            const _meta = host.isModern && level ? { 'io.modelcontextprotocol/logLevel': level } : undefined;
            if (!host.isModern) await host.client.setLoggingLevel(level ?? 'emergency');
            await host.call('test_logging_tool', {}, { _meta });
            await host.call('test_simple_text');
            await pause(0); // the SDK has a notification seen to after the answer behind it
            return host.heard.slice(from).filter(({ method }) => method === 'notifications/message')
                .map(({ params: { level, data, logger } }) => ({ level, data, logger }));
        };
        const all = [await levels('debug'), await levels('warning'), await levels()];
        assert.deepEqual(all.slice(1).map(({ length }) => length), [1, 0]);
        return all;
        // A legacy child logs from `info` on; what one request of a modern host wants is no reason to have it log more.
    }, ([all, ...rest], { isModern }, era) => [isModern && era === 'legacy' ? all.filter(({ level }) => level !== 'debug') : all, ...rest]],

    ['cancel', async (host, journal) => {
        const seconds = 100 + cancels++ / 1000;
        const abort = new AbortController();
        const call = host.call('test_wait', { seconds }, { signal: abort.signal }).then(() => 'answered', () => 'rejected');
        const isCall = ({ method, params }) => method === 'tools/call' && params.arguments?.seconds === seconds;
        await until('the call to reach the child', () => journal().some(isCall));
        const from = host.arrived.length;
        abort.abort('enough');
        assert.equal(await call, 'rejected');
        await until('the cancel to reach the child', () => {
            const seen = journal();
            const at = seen.findIndex(isCall);
            return seen.slice(at).some(({ method, params }) =>
                method === 'notifications/cancelled' && params.requestId === seen[at].id);
        });
        await host.call('test_simple_text');
        // Nothing more of that call.
        return host.arrived.slice(from).filter(message => !('result' in message) || !message.result.content).length;
    }],
    // A host that has no session is known by its name: it is the one that gave up, and can be asked again.
    ['a question after a cancel', async host => {
        host.answers = { 'elicitation/create': ADA };
        return plain(await host.call('test_input_required_result_elicitation'));
    }],

    // At the end, when much has arrived.
    ['the words of its own era only, and nothing to complain about', async host => {
        const results = host.arrived.filter(({ result }) => result).map(({ result }) => result);
        assert.ok(results.length > 30);
        for (const result of results) {
            const isModern = 'resultType' in result && 'io.modelcontextprotocol/serverInfo' in (result._meta ?? {});
            const isLegacy = !['resultType', 'ttlMs', 'cacheScope'].some(key => key in result) && !result._meta;
            assert.ok(host.isModern ? isModern : isLegacy, JSON.stringify(result));
        }
        // The SDK sees to an answer before the progress that came with it, and then knows its token no more.
        assert.deepEqual(host.complaints.filter(({ message }) => !/progress notification for an unknown token/.test(message)), []);
    }],
].map(([title, run, seen = AS_IT_IS]) => ({ title, run, seen }));

let cancels = 0;

/** Waits for something to become true. The limit is for a run that has failed. */
export async function until(what, look) {
    for (const end = Date.now() + 10_000; Date.now() < end; await pause(5)) if (look()) return;
    throw new Error(`did not happen within 10 s: ${typeof what === 'function' ? what() : what}`);
}

/** A result without what only one era writes on it. */
export function plain({ resultType, ttlMs, cacheScope, _meta, ...result }) {
    const { 'io.modelcontextprotocol/serverInfo': _, ...meta } = _meta ?? {};
    return Object.keys(meta).length ? { ...result, _meta: meta } : result;
}

export const briefly = ({ name, inputSchema }) => ({ name, inputSchema });

/** Legacy output is an object: another is put into one. */
export function withObjectOutput({ outputSchema, ...tool }) {
    if (!outputSchema || outputSchema.type === 'object') return outputSchema ? { ...tool, outputSchema } : tool;
    return { ...tool, outputSchema: { type: 'object', properties: { result: outputSchema }, required: ['result'] } };
}

/** What went wrong: an error of the protocol, or what a suite says of it. */
export async function failure(call) {
    try {
        const { isError, content } = await call;
        assert.equal(isError, true);
        return content[0].text;
    } catch ({ code, message }) {
        if (typeof code !== 'number') throw new Error(message);
        return { code, message: message.replace(/^MCP error -?\d+: /, '') };
    }
}

export async function asks(host, tool, args, answers, options) {
    host.answers = answers;
    host.asked.length = 0;
    const result = plain(await host.call(tool, args, options));
    assert.ok(host.asked.length, 'the host is asked');
    // That a form is one goes without saying.
    return { result, asked: host.asked.map(({ mode, ...question }) => mode === 'form' ? question : { mode, ...question }) };
}

async function subscribe({ client, isModern }) {
    if (isModern) {
        const listening = await client.listen({ resourceSubscriptions: [WATCHED] });
        assert.deepEqual(listening.honoredFilter, { resourceSubscriptions: [WATCHED] });
        return () => listening.close();
    }
    await client.subscribeResource({ uri: WATCHED });
    return () => client.unsubscribeResource({ uri: WATCHED });
}

async function lists({ client, isSuite }) {
    const { prompts } = await client.listPrompts();
    const { resources } = await client.listResources();
    return { prompts, resources, ...(!isSuite && { tools: (await client.listTools()).tools }) };
}

// A model that does what a test wrote down: it speaks the four APIs that the hosts know, on a loopback port, and asks for
// one tool call after the other. It keeps what the host gave back for each, and every connection elsewhere that a host
// tries: hosts have this server as their HTTP proxy, too, and it lets nothing through.

import { once } from 'node:events';
import { createServer } from 'node:http';

/**
 * Starts a model that asks for `calls`, each `{tool, input}`. `tool` is the suite's own name: hosts put a prefix before
 * it, and the model takes the tool of the request that ends with it. It asks as well for a tool that is not offered.
 */
export async function startModel(calls) {
    const model = { results: [], elsewhere: new Set(), requests: [] };
    const server = createServer(async (request, response) => {
        const chunks = [];
        for await (const chunk of request) chunks.push(chunk);
        const url = new URL(request.url, 'http://model');
        if (url.host !== 'model') model.elsewhere.add(url.host);
        let body;
        try {
            body = JSON.parse(Buffer.concat(chunks).toString() || '{}');
        } catch {
            body = {};
        }
        model.requests.push(`${request.method} ${request.url}`);
        const api = APIS.find(({ path }) => path.test(url.pathname));
        if (!api || request.method !== 'POST') return void response.writeHead(404).end('{}');
        const tools = api.tools(body);
        const results = api.results(body);
        // Hosts ask models for titles and summaries as well; those requests carry no tools of ours.
        const ours = tools.some(({ name }) => calls.some(call => name.endsWith(call.tool)));
        let call;
        if (ours) {
            if (results.length >= model.results.length) model.results = results;
            call = calls[results.length];
        }
        const tool = call && (tools.find(({ name }) => name.endsWith(call.tool)) ?? guess(tools, call.tool, calls));
        api.answer(response, url, body, tool && { ...tool, input: call.input, id: `call_${results.length}` });
    });
    server.on('connect', (request, socket) => {
        model.elsewhere.add(request.url);
        socket.on('error', () => {});
        socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    model.url = `http://127.0.0.1:${server.address().port}`;
    model.stop = () => {
        server.closeAllConnections();
        server.close();
    };
    return model;
}

/** A tool that the host does not offer, by the name that it would have beside another one of ours. */
function guess(tools, wanted, calls) {
    for (const { tool } of calls) {
        const offered = tools.find(({ name }) => name.endsWith(tool));
        if (offered) return { ...offered, name: offered.name.slice(0, -tool.length) + wanted };
    }
}

const DONE = 'All done.';

/** Text of a tool result, whatever it is wrapped in. */
const text = value => (typeof value === 'string' ? value : JSON.stringify(value));

function sse(response, events) {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const { event, data } of events) {
        response.write(`${event ? `event: ${event}\n` : ''}data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`);
    }
    response.end();
}

const json = (response, value) => response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value));

/** Anthropic's Messages. */
const messages = {
    path: /\/v1\/messages(\/count_tokens)?$/,
    tools: body => body.tools ?? [],
    results: body =>
        (body.messages ?? []).flatMap(({ content }) =>
            Array.isArray(content) ? content.filter(({ type }) => type === 'tool_result').map(part => text(part.content)) : []),
    answer(response, url, body, call) {
        if (url.pathname.endsWith('count_tokens')) return json(response, { input_tokens: 1 });
        const usage = { input_tokens: 1, output_tokens: 1 };
        const part = call ? { type: 'tool_use', id: call.id, name: call.name, input: call.input } : { type: 'text', text: DONE };
        const reason = call ? 'tool_use' : 'end_turn';
        const message = { id: 'msg_1', type: 'message', role: 'assistant', model: body.model, usage, stop_sequence: null };
        if (!body.stream) return json(response, { ...message, content: [part], stop_reason: reason });
        const data = [
            { type: 'message_start', message: { ...message, content: [], stop_reason: null } },
            { type: 'content_block_start', index: 0, content_block: call ? { ...part, input: {} } : { type: 'text', text: '' } },
            { type: 'content_block_delta', index: 0, delta: call
                ? { type: 'input_json_delta', partial_json: JSON.stringify(call.input) }
                : { type: 'text_delta', text: DONE } },
            { type: 'content_block_stop', index: 0 },
            { type: 'message_delta', delta: { stop_reason: reason, stop_sequence: null }, usage },
            { type: 'message_stop' },
        ];
        sse(response, data.map(data => ({ event: data.type, data })));
    },
};

/** OpenAI's Responses. Tools may stand in a namespace. */
const responses = {
    path: /\/responses$/,
    tools: body =>
        (body.tools ?? []).flatMap(tool =>
            tool.type === 'namespace' ? tool.tools.map(inner => ({ name: inner.name, namespace: tool.name })) : [tool])
            .filter(({ name }) => name),
    results: body => (body.input ?? []).filter(({ type }) => type === 'function_call_output').map(({ output }) => text(output)),
    answer(response, _url, _body, call) {
        const item = call
            ? {
                type: 'function_call', id: `fc_${call.id}`, call_id: call.id, name: call.name,
                ...(call.namespace && { namespace: call.namespace }), arguments: JSON.stringify(call.input),
            }
            : { type: 'message', id: 'msg_1', role: 'assistant', content: [{ type: 'output_text', text: DONE }] };
        const usage = { input_tokens: 1, input_tokens_details: null, output_tokens: 1, output_tokens_details: null, total_tokens: 2 };
        const data = [
            { type: 'response.created', response: { id: 'resp_1' } },
            { type: 'response.output_item.done', output_index: 0, item },
            { type: 'response.completed', response: { id: 'resp_1', usage, output: [item] } },
        ];
        sse(response, data.map(data => ({ event: data.type, data })));
    },
};

/** Google's generateContent. */
const generate = {
    path: /:(stream)?[gG]enerateContent$/,
    tools: body => (body.tools ?? []).flatMap(({ functionDeclarations = [] }) => functionDeclarations),
    results: body =>
        (body.contents ?? []).flatMap(({ parts = [] }) =>
            parts.filter(part => part.functionResponse).map(part => text(part.functionResponse.response))),
    answer(response, url, _body, call) {
        const part = call ? { functionCall: { name: call.name, args: call.input } } : { text: DONE };
        const usageMetadata = { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 };
        const answer = { candidates: [{ content: { role: 'model', parts: [part] }, finishReason: 'STOP', index: 0 }], usageMetadata };
        if (/:stream/.test(url.pathname)) sse(response, [{ data: answer }]);
        else json(response, answer);
    },
};

/** OpenAI's chat completions. */
const chat = {
    path: /\/chat\/completions$/,
    tools: body => (body.tools ?? []).map(tool => tool.function ?? {}).filter(({ name }) => name),
    results: body => (body.messages ?? []).filter(({ role }) => role === 'tool').map(({ content }) => text(content)),
    answer(response, _url, body, call) {
        const head = { id: 'chat_1', created: 1, model: body.model ?? 'mock' };
        const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
        const calls = call && [{ index: 0, id: call.id, type: 'function', function: { name: call.name, arguments: JSON.stringify(call.input) } }];
        const said = call ? { role: 'assistant', content: null, tool_calls: calls } : { role: 'assistant', content: DONE };
        const finish_reason = call ? 'tool_calls' : 'stop';
        if (!body.stream) return json(response, { ...head, object: 'chat.completion', choices: [{ index: 0, message: said, finish_reason }], usage });
        const chunk = (delta, finish_reason = null) => ({ data: { ...head, object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason }] } });
        sse(response, [chunk(said), chunk({}, finish_reason), { data: { ...head, object: 'chat.completion.chunk', choices: [], usage } }, { data: '[DONE]' }]);
    },
};

const APIS = [messages, responses, generate, chat];

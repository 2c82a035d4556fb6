// usage: PORT=PORT node modern-server.mjs
//
// A server with the official TypeScript package of the second generation: 2026-07-28 and nothing else, over HTTP,
// each request by itself.

import { createServer } from 'node:http';
import { createRequire } from 'node:module';

const installed = createRequire(new URL('.cache/npm/package.json', import.meta.url));
const { acceptedContent, createMcpHandler, fromJsonSchema, inputRequired, McpServer } = installed('@modelcontextprotocol/server');
const { toNodeHandler } = installed('@modelcontextprotocol/node');

const text = text => ({ content: [{ type: 'text', text }] });
const object = (properties, required = Object.keys(properties)) => ({ type: 'object', properties, required });
const NAME = object({ name: { type: 'string', title: 'Your name' } });

function serve() {
    const server = new McpServer({ name: 'modern-server', version: '1.0.0' }, { instructions: 'Ask for an echo.' });
    server.registerTool('echo', {
        description: 'says it again',
        inputSchema: fromJsonSchema(object({ message: { type: 'string' } })),
    }, ({ message }) => text(`Echo: ${message}`));

    server.registerTool('count', {
        description: 'counts, and reports every step',
        inputSchema: fromJsonSchema(object({ steps: { type: 'integer' } })),
    }, async ({ steps }, { mcpReq }) => {
        const { progressToken } = mcpReq._meta ?? {};
        for (let progress = 1; progress <= steps && progressToken !== undefined; progress++) {
            const params = { progressToken, progress, total: steps, message: `step ${progress}` };
            await mcpReq.notify({ method: 'notifications/progress', params });
        }
        return text(`counted to ${steps}`);
    });

    // The question is the first answer; the host calls again with what it was told.
    server.registerTool('greet', { description: 'asks for a name', inputSchema: fromJsonSchema(object({})) }, (_, { mcpReq }) => {
        if (!mcpReq.inputResponses) {
            const who = inputRequired.elicit({ message: 'Who are you?', requestedSchema: NAME });
            return inputRequired({ inputRequests: { who } });
        }
        const told = acceptedContent(mcpReq.inputResponses, 'who');
        return text(told ? `Hello, ${told.name}` : 'Hello, whoever you are');
    });

    server.registerPrompt('weather', {
        description: 'asks for the weather',
        argsSchema: fromJsonSchema(object({ city: { type: 'string' } })),
    }, ({ city }) => ({ messages: [{ role: 'user', content: { type: 'text', text: `What is the weather in ${city}?` } }] }));

    server.registerResource('poem', 'test://poem', { description: 'a short one', mimeType: 'text/plain' },
        ({ href }) => ({ contents: [{ uri: href, mimeType: 'text/plain', text: 'Zażółć gęślą jaźń' }] }));
    return server;
}

const handle = toNodeHandler(createMcpHandler(serve, { legacy: 'reject' }));
createServer((request, response) => {
    if (request.url === '/mcp') return handle(request, response);
    response.writeHead(404).end();
}).listen(process.env.PORT, '127.0.0.1');

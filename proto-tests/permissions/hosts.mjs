// The hosts: where each is installed, how its user adds Switchboard and writes the rule "this tool without a question",
// and how it is run once without a terminal. Each gets a HOME and a project of its own, no account, and the mock model.

import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const installed = (folder, path) => fileURLToPath(new URL(`${folder}/node_modules/${path}`, import.meta.url));
const PROMPT = 'Read the note, then write the other one.';

function write(file, content) {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content, null, 2) + '\n', { mode: 0o600 });
}

/**
 * Each: `program`; `refusal`, what is said of a call that the host did not make; `set_up({home, shim, env, allowed, model})`,
 * which writes the host's files with a rule for each suite tool in `allowed`; `args`; `env`.
 */
export const HOSTS = {
    'claude-code': {
        program: installed('.cache/npm', '@anthropic-ai/claude-code-linux-x64/claude'),
        refusal: /haven't granted it yet|requires approval/i,
        set_up({ home, shim, env, allowed }) {
            write(join(home, '.claude.json'), {
                hasCompletedOnboarding: true,
                mcpServers: { switchboard: { type: 'stdio', command: shim, args: [], env } },
            });
            write(join(home, '.claude', 'settings.json'), {
                permissions: { allow: allowed.map(tool => `mcp__switchboard__${tool}`) },
            });
        },
        args: () => ['-p', PROMPT, '--output-format', 'json'],
        env: ({ model }) => ({
            ANTHROPIC_BASE_URL: model.url,
            ANTHROPIC_API_KEY: 'mock',
            ENABLE_TOOL_SEARCH: 'false',
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
            DISABLE_AUTOUPDATER: '1',
            DISABLE_TELEMETRY: '1',
            DISABLE_ERROR_REPORTING: '1',
        }),
    },
    gemini: {
        program: process.execPath,
        // A tool that would need a question is not even offered.
        refusal: /not found/i,
        set_up({ home, shim, env, allowed }) {
            write(join(home, '.gemini', 'settings.json'), {
                security: { auth: { selectedType: 'gemini-api-key' }, folderTrust: { enabled: false } },
                privacy: { usageStatisticsEnabled: false },
                telemetry: { enabled: false },
                general: { enableAutoUpdate: false, enableAutoUpdateNotification: false, disableAutoUpdate: true, disableUpdateNag: true },
                mcpServers: { switchboard: { command: shim, args: [], env } },
            });
            const rules = allowed.map(tool => `[[rule]]\ntoolName = "mcp_switchboard_${tool}"\ndecision = "allow"\npriority = 100\n`);
            write(join(home, '.gemini', 'policies', 'switchboard.toml'), rules.join('\n'));
        },
        args: () => [installed('.cache/npm', '@google/gemini-cli/bundle/gemini.js'), '-p', PROMPT, '--output-format', 'json'],
        env: ({ model }) => ({
            GOOGLE_GEMINI_BASE_URL: model.url,
            GEMINI_API_KEY: 'mock',
            GEMINI_CLI_NO_RELAUNCH: 'true',
            GEMINI_CLI_TRUST_WORKSPACE: 'true',
            GEMINI_MODEL: 'gemini-2.5-flash',
        }),
    },
    opencode: {
        // A refused question ends its run.
        ends_refused: true,
        program: installed('long/.cache/npm', 'opencode-linux-x64/bin/opencode'),
        refusal: /rejected permission/i,
        set_up({ home, shim, env, allowed, model }) {
            write(join(home, '.config', 'opencode', 'opencode.json'), {
                autoupdate: false,
                share: 'disabled',
                model: 'mock/mock',
                small_model: 'mock/mock',
                provider: {
                    mock: {
                        npm: '@ai-sdk/openai-compatible',
                        options: { baseURL: `${model.url}/v1`, apiKey: 'mock' },
                        models: { mock: { name: 'mock', tool_call: true } },
                    },
                },
                mcp: { switchboard: { type: 'local', command: [shim], environment: env, enabled: true } },
                permission: {
                    'switchboard_*': 'ask',
                    ...Object.fromEntries(allowed.map(tool => [`switchboard_${tool}`, 'allow'])),
                },
            });
        },
        args: () => ['run', PROMPT],
        env: () => ({
            OPENCODE_DISABLE_AUTOUPDATE: '1',
            OPENCODE_DISABLE_MODELS_FETCH: '1',
            OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
            OPENCODE_DISABLE_DEFAULT_PLUGINS: '1',
            OPENCODE_DISABLE_SHARE: '1',
        }),
    },
    codex: {
        program: installed('long/.cache/npm', '@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex'),
        refusal: /requires approval/i,
        // Codex needs no rule for what is annotated as read-only.
        set_up({ home, shim, env, allowed, model }) {
            const table = Object.entries(env).map(([name, value]) => `${name} = ${JSON.stringify(value)}`).join(', ');
            const rules = allowed.filter(tool => tool.endsWith('_write'))
                .map(tool => `[mcp_servers.switchboard.tools.${tool}]\napproval_mode = "approve"\n`);
            write(join(home, '.codex', 'config.toml'), `model = "mock"
model_provider = "mock"
check_for_update_on_startup = false
[analytics]
enabled = false
[feedback]
enabled = false
[model_providers.mock]
name = "mock"
base_url = "${model.url}/v1"
wire_api = "responses"
env_key = "MOCK_KEY"
request_max_retries = 0
stream_max_retries = 0
[mcp_servers.switchboard]
command = ${JSON.stringify(shim)}
env = { ${table} }
${rules.join('')}`);
        },
        args: () => ['exec', '--skip-git-repo-check', PROMPT],
        env: () => ({ MOCK_KEY: 'mock' }),
    },
};

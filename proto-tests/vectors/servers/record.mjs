// Records what each server says of itself: the `initialize` result and the complete `tools/list`, byte for byte.
//
//     node proto-tests/vectors/servers/record.mjs DIRECTORY [ID…]
//
// DIRECTORY must lie outside the repository. The pinned packages are installed there, and servers run there. Needs Node 20 with npm and
// Python 3.10 with venv.
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));

// `bin` is the program of an npm package; `venv` the folder a PyPI package is installed in (sqlite needs
// an old SDK, so a folder of its own).
// No credential is real: servers that refuse to start without get a word.
const SERVERS = [
  { id: "everything", npm: "@modelcontextprotocol/server-everything@2026.8.31", bin: "mcp-server-everything" },
  { id: "filesystem", npm: "@modelcontextprotocol/server-filesystem@2026.8.31", bin: "mcp-server-filesystem", args: ["."] },
  { id: "memory", npm: "@modelcontextprotocol/server-memory@2026.8.31", bin: "mcp-server-memory" },
  { id: "thinking", npm: "@modelcontextprotocol/server-sequential-thinking@2026.8.31", bin: "mcp-server-sequential-thinking" },
  { id: "playwright", npm: "@playwright/mcp@0.0.83", bin: "playwright-mcp" },
  { id: "context7", npm: "@upstash/context7-mcp@4.1.1", bin: "context7-mcp" },
  { id: "devtools", npm: "chrome-devtools-mcp@1.11.0", bin: "chrome-devtools-mcp" },
  { id: "notion", npm: "@notionhq/notion-mcp-server@2.5.2", bin: "notion-mcp-server", env: { NOTION_TOKEN: "none" } },
  { id: "git", pypi: "mcp-server-git==2026.10.19", venv: "python" },
  { id: "time", pypi: "mcp-server-time==2026.10.19", venv: "python", args: ["--local-timezone", "UTC"] },
  { id: "fetch", pypi: "mcp-server-fetch==2026.10.24", venv: "python" },
  { id: "github", npm: "@modelcontextprotocol/server-github@2025.4.8", bin: "mcp-server-github", env: { GITHUB_PERSONAL_ACCESS_TOKEN: "none" } },
  { id: "slack", npm: "@modelcontextprotocol/server-slack@2025.4.25", bin: "mcp-server-slack", env: { SLACK_BOT_TOKEN: "none", SLACK_TEAM_ID: "none" } },
  { id: "sqlite", pypi: "mcp-server-sqlite==2025.4.25", with: ["mcp==1.26.0"], venv: "python-sqlite", args: ["--db-path", "scratch.db"] },
  { id: "mongodb", npm: "mongodb-mcp-server@3.0.4", bin: "mongodb-mcp-server", env: { MDB_MCP_TELEMETRY: "disabled", DO_NOT_TRACK: "1" } },
  { id: "tavily", npm: "tavily-mcp@0.2.22", bin: "tavily-mcp", env: { TAVILY_API_KEY: "none" } },
];

// What the daemon tells a server about its host: lists may depend on it.
const HOST = {
  protocolVersion: "2025-11-25",
  capabilities: { elicitation: { form: {}, url: {} }, sampling: {} },
  clientInfo: { name: "switchboard-record", version: "1" },
};
const ANSWER_WITHIN_MS = 30_000;
// Some servers add tools only after they have heard `initialized`.
const SETTLE_MS = 1500;

const [directory, ...only] = process.argv.slice(2);
if (!directory) throw new Error("usage: record.mjs DIRECTORY [ID…]");
const scratch = resolve(directory);
if (scratch.startsWith(resolve(here, "../../.."))) throw new Error("DIRECTORY must lie outside the repository");
mkdirSync(scratch, { recursive: true });
const chosen = SERVERS.filter((server) => only.length === 0 || only.includes(server.id));
install();
for (const server of chosen) await record(server);
process.exit();

function install() {
  const npm = chosen.flatMap((server) => server.npm ?? []);
  if (npm.length) run("npm", ["install", "--prefix", scratch, "--no-audit", "--no-fund", "--ignore-scripts", "--save-exact", ...npm]);
  for (const { venv, pypi, with: also = [] } of chosen.filter((server) => server.pypi)) {
    const folder = join(scratch, venv);
    if (!existsSync(folder)) run("python3", ["-m", "venv", folder]);
    run(join(folder, "bin/python"), ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", pypi, ...also]);
  }
}

function run(program, args) {
  execFileSync(program, args, { cwd: scratch, stdio: ["ignore", "inherit", "inherit"] });
}

async function record(server) {
  const name = server.pypi?.split("==")[0];
  const program = server.npm ? join(scratch, "node_modules/.bin", server.bin) : join(scratch, server.venv, "bin", name);
  const child = spawn(program, server.args ?? [], { cwd: scratch, env: { ...process.env, ...server.env }, stdio: ["pipe", "pipe", "ignore"] });
  const lines = answers(child);
  const send = (message) => child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  try {
    send({ id: 1, method: "initialize", params: HOST });
    const initialize = member(await lines(1), "result");
    send({ method: "notifications/initialized" });
    await new Promise((done) => setTimeout(done, SETTLE_MS));
    const tools = [];
    let cursor;
    for (let id = 2; id === 2 || cursor; id++) {
      send({ id, method: "tools/list", params: cursor ? { cursor } : {} });
      const page = member(await lines(id), "result");
      tools.push(...elements(member(page, "tools")));
      cursor = JSON.parse(page).nextCursor;
    }
    const text = `{"id":${JSON.stringify(server.id)},"package":${JSON.stringify(server.npm ?? server.pypi)},\n"initialize":${initialize},\n"tools":[\n${tools.join(",\n")}\n]}\n`;
    JSON.parse(text);
    writeFileSync(join(here, `${server.id}.json`), text);
    console.log(`${server.id}: ${tools.length} tools, ${tools.reduce((sum, tool) => sum + Buffer.byteLength(tool), 0)} bytes`);
  } finally {
    child.kill("SIGKILL");
  }
}

// The line that answers a request, as it was written.
function answers(child) {
  const waiting = new Map();
  let rest = "";
  child.stdout.setEncoding("utf8").on("data", (data) => {
    const whole = (rest + data).split("\n");
    rest = whole.pop();
    for (const line of whole.filter((line) => line.startsWith("{"))) {
      const message = JSON.parse(line);
      if (message.error) console.error(line);
      if (!message.method) waiting.get(message.id)?.(line);
    }
  });
  return (id) =>
    new Promise((done, fail) => {
      const late = setTimeout(() => fail(new Error(`no answer to request ${id}`)), ANSWER_WITHIN_MS);
      child.once("exit", (code) => fail(new Error(`the server exited with ${code} before it answered request ${id}`)));
      waiting.set(id, (line) => (clearTimeout(late), done(line)));
    });
}

// The bytes of one member of an object. `JSON.parse` would write numbers and escapes in its own way.
function member(object, name) {
  for (const entry of elements(object)) {
    const end = textEnd(entry, entry.indexOf('"'));
    if (JSON.parse(entry.slice(entry.indexOf('"'), end)) === name) return entry.slice(entry.indexOf(":", end) + 1).trim();
  }
  throw new Error(`no member ${name} in ${object.slice(0, 200)}`);
}

// The bytes between the commas of the outermost object or array.
function elements(value) {
  const text = value.trim();
  const parts = [];
  let depth = 0;
  let from = 1;
  for (let at = 0; at < text.length; at++) {
    const byte = text[at];
    if (byte === '"') at = textEnd(text, at) - 1;
    else if (byte === "{" || byte === "[") depth++;
    else if (byte === "}" || byte === "]") depth--;
    else if (byte === "," && depth === 1) {
      parts.push(text.slice(from, at).trim());
      from = at + 1;
    }
  }
  const last = text.slice(from, -1).trim();
  return last ? [...parts, last] : parts;
}

// Where the string that begins at `at` ends.
function textEnd(text, at) {
  let end = at + 1;
  while (text[end] !== '"') end += text[end] === "\\" ? 2 : 1;
  return end + 1;
}

// A HOME of its own with a daemon, hosts and a browser, and nothing of it left afterwards.

import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { createInterface } from "node:readline";
import path from "node:path";

const need = createRequire(new URL("./.cache/node_modules/", import.meta.url));
const { chromium } = need("playwright-core");

/** What looks for barriers, as it is to be run in a page. */
export const axe = need("axe-core").source;

/** More than a loaded machine takes for anything here. */
export const PATIENCE = 30_000;

export class Stage {
  constructor(bin, folder) {
    this.bin = path.resolve(bin);
    this.root = folder ?? mkdtempSync("/tmp/sbp-");
    this.home = path.join(this.root, "home");
    this.socket = path.join(this.root, "s");
    this.started = [];
    mkdirSync(path.join(this.home, ".config/switchboard/mcps"), { recursive: true, mode: 0o700 });
    mkdirSync(path.join(this.root), { recursive: true, mode: 0o700 });
    this.environment = {
      HOME: this.home,
      USER: "tester",
      LOGNAME: "tester",
      SHELL: "/bin/sh",
      PATH: "/usr/local/bin:/usr/bin:/bin",
      SWITCHBOARD_SOCKET: this.socket,
    };
  }

  program(name) {
    return path.join(this.bin, name);
  }

  write(file, value) {
    const full = path.join(this.root, file);
    mkdirSync(path.dirname(full), { recursive: true, mode: 0o700 });
    writeFileSync(full, typeof value === "string" ? value : JSON.stringify(value));
  }

  /** Servers of the person's own, in one file. */
  servers(folder, mcpServers) {
    this.write(`home/.config/switchboard/mcps/${folder}/.mcp.json`, { mcpServers });
  }

  async start() {
    this.port ??= await freePort();
    this.daemon = this.spawn("switchboardd", ["--socket", this.socket, "--listen", `127.0.0.1:${this.port}`], ["ignore", "ignore", "pipe"]);
    let said = "";
    this.daemon.stderr.on("data", (chunk) => (said += chunk));
    await until("the daemon to serve", async () => {
      if (this.daemon.exitCode !== null) throw new Error(`switchboardd ended: ${said}`);
      return (await fetch(`${this.base}/health`).catch(() => null))?.ok;
    });
  }

  get base() {
    return `http://127.0.0.1:${this.port}`;
  }

  async stop(signal = "SIGTERM") {
    this.daemon.kill(signal);
    await this.over();
  }

  /** The daemon has ended. */
  async over() {
    await ended(this.daemon);
  }

  spawn(name, args, stdio, cwd = this.root) {
    const child = spawn(this.program(name), args, { cwd, env: this.environment, stdio });
    this.started.push(child);
    return child;
  }

  /** A command that a person types; gives what it wrote. */
  async order(...args) {
    const child = this.spawn("switchboard", args, ["ignore", "pipe", "pipe"]);
    let [out, err] = ["", ""];
    child.stdout.on("data", (chunk) => (out += chunk));
    child.stderr.on("data", (chunk) => (err += chunk));
    const code = await ended(child);
    if (code !== 0) throw new Error(`switchboard ${args.join(" ")}: ${code}: ${err}`);
    return out.trim();
  }

  /** A host behind a shim, in a folder of the stage. */
  async host(name, workspace, revision = "2025-11-25") {
    const folder = path.join(this.root, workspace);
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const child = this.spawn("switchboard", ["--no-start", "--workspace", folder], ["pipe", "pipe", "ignore"], folder);
    const waiting = new Map();
    createInterface(child.stdout).on("line", (line) => {
      const message = JSON.parse(line);
      waiting.get(message.id)?.(message);
      waiting.delete(message.id);
    });
    let last = 0;
    const send = (message) => child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
    const request = (method, params) =>
      new Promise((done) => {
        const id = ++last;
        waiting.set(id, done);
        send({ id, method, params });
      });
    await request("initialize", { protocolVersion: revision, capabilities: {}, clientInfo: { name, version: "1" } });
    send({ method: "notifications/initialized" });
    const call = (suite, subtool, args = {}) =>
      request("tools/call", { name: `${suite}_suite`, arguments: { action: "call", subtool, args } });
    return { call, request, close: () => (child.stdin.end(), ended(child)) };
  }

  /** A browser that has never been anywhere and can go nowhere else. */
  async browser() {
    this.chromium = await chromium.launch({
      executablePath: process.env.SWITCHBOARD_BROWSER,
      headless: true,
      chromiumSandbox: false,
      args: [
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
      ],
    });
    return this.chromium;
  }

  async clear() {
    await this.chromium?.close();
    const running = this.started.filter((child) => child.exitCode === null && child.signalCode === null);
    running.forEach((child) => child.kill("SIGTERM"));
    await Promise.all(running.map(ended));
    rmSync(this.root, { recursive: true, force: true });
  }
}

const ended = (child) =>
  child.exitCode !== null || child.signalCode !== null
    ? Promise.resolve(child.exitCode)
    : new Promise((done) => child.once("exit", (code) => done(code)));

function freePort() {
  return new Promise((done) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });
}

export async function until(what, look) {
  const end = Date.now() + PATIENCE;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > end) throw new Error(`waited in vain for ${what}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

// The pictures of README and docs: the bundled children under names that people know, several hosts, some minutes of calls.

import { existsSync, mkdirSync } from "node:fs";
import path from "node:path";
import { Stage, until } from "./stage.mjs";

/** Small enough for a README. */
const SHOTS = [
  ["light", { width: 1040, height: 1096 }, false],
  ["dark", { width: 1040, height: 1096 }, false],
  ["phone", { width: 390, height: 844 }, true],
];

/** The charts show five minutes. */
const MINUTES = Number(process.env.PICTURE_MINUTES ?? 5);

export async function pictures(bin, folder) {
  const stage = new Stage(bin, existsSync("/tmp/demo") ? undefined : "/tmp/demo");
  try {
    const [mock, text, evil] = ["mock-child", "text-child", "evil-child"].map((name) => stage.program(name));
    stage.write("home/.config/switchboard/switchboard.config.json", {
      suites: { browser: { pool: { scope: "session", max: 4 } }, search: { pool: { scope: "call", warm: 1, max: 3 } } },
    });
    stage.write("postgres.py", 'def connect():\n    raise ConnectionRefusedError("localhost:5432 refuses the connection")\n\nconnect()\n');
    stage.servers("mine", {
      browser: { command: mock, description: "clicking through web pages" },
      files: { command: text, description: "reading and changing text" },
      github: { command: mock, env: { GITHUB_TOKEN: "${GITHUB_TOKEN_OF_ADA}" }, description: "issues and pull requests" },
      notes: { command: mock, description: "notes and reminders" },
      postgres: { command: "python3", args: [path.join(stage.root, "postgres.py")], description: "asking the database" },
      search: { command: evil, args: ["echo"], description: "searching the web" },
    });
    stage.write("shop/mcps/deploy/.mcp.json", { mcpServers: { deploy: { command: "npx", args: ["-y", "shop-deploy@4.2.0", "--cluster", "staging"] } } });
    await stage.start();
    const claude = await stage.host("Claude Code", "shop", "2025-11-25");
    const cursor = await stage.host("Cursor", "shop", "2025-06-18");
    const zed = await stage.host("Zed", "website", "2025-03-26");
    const code = await stage.host("Visual Studio Code", "website", "2025-11-25");
    const hosts = [claude, cursor, zed, code];
    await claude.request("tools/list", {});
    await zed.call("postgres", "query", { sql: "select 1" });
    await traffic(hosts);
    const pending = [claude.call("search", "slow", { ms: 20_000 })];
    const chromium = await stage.browser();
    mkdirSync(folder, { recursive: true });
    for (const [name, viewport, phone] of SHOTS) {
      const context = await chromium.newContext({
        viewport,
        colorScheme: name === "light" ? "light" : "dark",
        deviceScaleFactor: phone ? 1.5 : 1,
        reducedMotion: "reduce",
      });
      const page = await context.newPage();
      await page.goto(await stage.order("open", "--no-browser"));
      await page.waitForSelector('#link[data-state="live"]');
      await until("fonts", () => page.evaluate(() => document.fonts.ready.then(() => true)));
      await page.screenshot({ path: path.join(folder, `status-page-${name}.png`), fullPage: false });
      if (name === "light") await opened(page, path.join(folder, "status-page-row.png"));
      await context.close();
    }
    await Promise.race([Promise.all(pending), new Promise((done) => setTimeout(done, 100))]);
  } finally {
    await stage.clear();
  }
}

/** One row with what is folded under it. */
async function opened(page, file) {
  await page.setViewportSize({ width: 1040, height: 2000 });
  const row = page.locator("tbody.suite", { has: page.locator('.name bdi:text-is("files")') });
  await row.locator(".name button").click();
  await row.locator(".tools li").first().waitFor();
  await page.mouse.move(0, 0);
  await row.screenshot({ path: file });
}

/** Calls as people make them: in bursts, some slow, a few wrong. */
async function traffic(hosts) {
  const end = Date.now() + MINUTES * 60_000;
  const any = (list) => list[Math.floor(Math.random() * list.length)];
  while (Date.now() < end) {
    const host = any(hosts);
    const burst = 1 + Math.floor(Math.random() ** 2 * 9);
    for (let at = 0; at < burst; at++) {
      const what = any(["files", "files", "notes", "notes", "notes", "search", "browser"]);
      if (what === "search") await host.call("search", "slow", { ms: Math.round(40 + Math.random() ** 4 * 700) });
      else if (what === "files") await host.call("files", "upper", { text: "a" });
      else await host.call(what, Math.random() < 0.02 ? "fly" : "echo", { text: "a" });
    }
    await new Promise((done) => setTimeout(done, Math.random() ** 2 * 4000));
  }
}

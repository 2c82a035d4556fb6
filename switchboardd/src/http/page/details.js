// What is folded under a server's name: what it is for, its command, its tools, what it wrote, its last calls.

import { age, copyable, el, explain, failure, keep, output, reason, say, show } from "./dom.js";
import * as figures from "./figures.js";
import { read } from "./link.js";
import { count, latency, memory, outcome, plural, quoted, span, stateWord, visible } from "./words.js";

/** An open row asks again no sooner than this. */
const FRESH = 4_000;
const MOST_TOOLS = 60;
const MOST_CALLS = 5;

const MEANING = {
  cold: "not running; its first call starts it",
  starting: "starting",
  failed: "its last start failed; the next call tries again",
  resting: "it crashed repeatedly; the next start waits for a moment",
  misconfigured: "cannot be started as it is written",
  held: "waits for your approval; nothing of it runs before",
};

/** The commands that one types about a server, the most likely first. */
function commands(server) {
  const where = server.workspace ? `--workspace ${quoted(server.workspace)} ` : "";
  const name = quoted(server.child ?? server.name);
  const list = ["explain", `logs -f`, "restart"].map((word) => `switchboard ${where}${word} ${name}`);
  if (server.state === "held") return [`switchboard ${where}allow ${name}`, list[0]];
  return server.waiting || server.drift ? [`switchboard ${where}allow ${name}`, ...list] : list;
}

export function details() {
  const facts = el("dl", { class: "facts" });
  const tools = part("Tools", el("ul", { class: "tools", tabindex: "0", "aria-label": "Tools" }));
  const wrote = part("Last lines of stderr", output());
  const calls = part("Last calls", el("ul", { class: "rows" }));
  const running = part("Processes", el("ul", { class: "rows" }));
  const next = part("More in a terminal", el("div", { class: "commands" }));
  const node = el("div", { class: "more" }, facts, ...[tools, wrote, calls, running, next].map((one) => one.node));
  let found = null;
  let asked = -Infinity;
  let latest = null;

  const draw = () => {
    drawFacts(facts, latest, found);
    drawTools(tools, found);
    const lines = (found?.stderr ?? []).map((line) => line.text);
    show(wrote.node, lines.length > 0);
    wrote.body.update(lines, ["failed", "resting"].includes(latest.state));
    drawCalls(calls, latest);
    drawProcesses(running, latest);
    keep(next.body, commands(latest), (line) => line, (line) => ({ node: copyable(line), update() {} }));
  };
  const look = async () => {
    // Of a held server there is nothing to fetch.
    if (latest.state === "held" || performance.now() - asked < FRESH) return;
    asked = performance.now();
    const query = latest.workspace ? `?workspace=${encodeURIComponent(latest.workspace)}` : "";
    const answer = await read(`/suites/${encodeURIComponent(latest.name)}/details${query}`);
    if (!answer) return;
    found = answer;
    draw();
  };
  const update = (server) => {
    latest = server;
    draw();
    void look();
  };
  return { node, update };
}

/** A titled part of the row. */
function part(title, body) {
  const heading = el("h3", {}, title);
  return { node: el("section", {}, heading, body.node ?? body), heading, body };
}

/** What it is for, out of the words that a model reads. */
function purpose(server) {
  const words = server.description ?? "";
  if (server.lastError || server.waiting) return null;
  return /^Use this tool for ([^]*?)\. Actions: /.exec(words)?.[1] ?? words;
}

function drawFacts(node, server, found) {
  const drift = server.drift;
  const pool = server.pool;
  const scope = { shared: "shared by all editors", session: "one for each editor window", workspace: "one for each project", call: "one for each call at a time" };
  const about = [
    ["for", purpose(server)],
    ["state", server.state === "ready" ? null : `${stateWord(server.state)}: ${MEANING[server.state] ?? ""}`],
    // What it wrote stands below.
    ["last error", found?.stderr?.length && server.lastError ? reason(server.lastError) : server.lastError],
    [server.state === "held" ? "would run" : "an update would run", server.waiting],
    [drift?.held ? "tools held" : "tools changed", drift && [drift.summary, ...(drift.keepsSplit ? ["stays two tools until you accept this"] : []), ...(drift.changes ?? []).flatMap((change) => change.details)].join("; ")],
    [server.url ? "reached at" : "runs", server.state === "held" ? null : (server.url ?? found?.command)],
    ["in", found?.directory],
    ["processes", pool && `${scope[pool.scope] ?? pool.scope}; at most ${pool.max}${pool.warm ? `, ${pool.warm} kept ready` : ""}; started ${plural(pool.starts, "time")}; stopped after ${span(pool.idleMs)} without a call`],
    ["written in", server.file && `${server.file}${server.line ? `:${server.line}` : ""}`],
  ].filter(([, words]) => words);
  keep(node, about, ([label]) => label, ([label]) => {
    const bad = label === "last error" || label.startsWith("tools ");
    const words = el("bdi");
    const value = label === "runs" ? copyable("") : words;
    return {
      node: el("div", { class: bad ? "bad" : "" }, el("dt", {}, label), el("dd", {}, value)),
      update([, text]) {
        if (label === "runs") value.update(visible(text, 600));
        else if (label === "last error") failure(words, text);
        else explain(words, visible(text, 600));
      },
    };
  });
}

function drawTools({ node, heading, body }, found) {
  const list = found?.tools ?? [];
  show(node, list.length > 0);
  say(heading, `Tools (${count(list.length)})`);
  const shown = list.slice(0, MOST_TOOLS);
  if (list.length > MOST_TOOLS) shown.push({ more: list.length - MOST_TOOLS });
  keep(body, shown, (tool) => tool.name ?? "", () => {
    const [name, words] = [el("code"), el("bdi")];
    return {
      node: el("li", {}, name, " ", words),
      update(tool) {
        say(name, tool.more ? "…" : visible(tool.name, 80));
        say(words, tool.more ? `and ${count(tool.more)} more: switchboard introspect ${found.server}` : visible(tool.summary, 200));
      },
    };
  });
}

function drawCalls({ node, body }, server) {
  const own = (call) => call.server === server.child && (!call.suite || call.suite.startsWith(server.name));
  const list = (server.recentCalls ?? []).filter(own).slice(0, MOST_CALLS);
  show(node, list.length > 0);
  keep(body, list, (call) => `${call.at} ${call.ms} ${call.host} ${call.tool}`, (call) => {
    const since = el("span", { class: "quiet" });
    const what = call.what === "call" ? (call.tool ?? "–") : `(${call.what})`;
    const words = ` · ${visible(call.host ?? "an editor without a name", 60)} · ${latency(call.ms)} · ${outcome(call)}`;
    return {
      node: el("li", {}, el("code", {}, visible(what, 80)), el("span", {}, words, " · "), since),
      update: (call) => age(since, Math.max(0, server.nowMs - call.at - call.ms), (ms) => `${span(ms)} ago`),
    };
  });
}

function drawProcesses({ node, heading, body }, server) {
  const list = figures.processes(server);
  show(node, list.length > 0);
  say(heading, server.url ? "Connection" : list.length > 1 ? "Processes" : "Process");
  keep(body, list, (process) => `${process.pid ?? ""}`, () => {
    const [what, since] = [el("span"), el("span")];
    return {
      node: el("li", {}, what, since),
      update(process) {
        const words = [process.pid ? `pid ${process.pid}` : "remote", `MCP ${visible(process.revision ?? "?", 20)}`];
        if (typeof process.memoryKb === "number") words.push(memory(process.memoryKb));
        words.push(process.inFlight ? `${plural(process.inFlight, "call")} running` : "idle");
        if (process.ownedBySession) words.push("of one editor window only");
        say(what, `${words.join(" · ")} · `);
        age(since, process.ageMs ?? 0, (ms) => `up ${span(ms)}`);
      },
    };
  });
}

// Everything but the table of servers: what is said at a glance, what needs attention, who is connected.

import { drawCalls } from "./calls.js";
import { bars } from "./charts.js";
import { age, by, copyable, el, explain, failure, keep, mark, say, show } from "./dom.js";
import { drawErrors } from "./errors.js";
import * as figures from "./figures.js";
import { drawSuites, pill } from "./suites.js";
import { count, latency, memory, plain, plural, quoted, share, span, stateWord, visible } from "./words.js";

const chart = bars(720, 72);
by("traffic-plot").append(chart.node);
/** What the pointer is over, as a step; `null` outside. */
let pointed = null;
let points = [];
by("traffic-plot").addEventListener("pointermove", (event) => {
  const box = by("traffic-plot").getBoundingClientRect();
  pointed = Math.min(points.length - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * points.length)));
  point();
});
by("traffic-plot").addEventListener("pointerleave", () => {
  pointed = null;
  point();
});

export function draw(status, whole) {
  const suites = figures.suites(status);
  announce(suites);
  document.title = titleOf(suites);
  daemon(status, whole);
  overview(status, suites, whole);
  attention(status, suites, whole);
  drawSuites(suites, whole);
  sessions(status, whole);
  drawCalls(status, whole, figures.serverNames(suites));
  drawErrors(status, whole, figures.serverNames(suites));
  show(by("suites"), true);
}

const troubled = (suites) => suites.filter((suite) => ["failed", "misconfigured", "held", "resting"].includes(suite.state));

function titleOf(suites) {
  const bad = troubled(suites).length;
  return bad ? `(${bad}) Switchboard` : "Switchboard";
}

function daemon(status, whole) {
  const node = by("daemon");
  show(node, whole);
  if (!whole) return;
  const words = (ms) => `version ${visible(status.version, 30)} · pid ${status.pid} · up ${span(ms)}`;
  if (node.boot !== status.boot) node.born = undefined;
  node.boot = status.boot;
  age(node, status.uptimeMs ?? 0, words);
}

/** One figure with its name and a second line. */
function tile([label]) {
  const big = el("dd", { class: "big" });
  const small = el("dd", { class: "small" });
  return {
    node: el("div", { class: "tile" }, el("dt", {}, label), big, small),
    update([, value, note, bad]) {
      say(big, value);
      say(small, note);
      mark(small, "data-bad", bad ? "" : null);
    },
  };
}

function overview(status, suites, whole) {
  show(by("overview"), whole);
  if (!whole) return;
  const running = suites.flatMap(figures.processes);
  const sessions = figures.editors(status);
  const calls = figures.calls(status);
  const ready = suites.filter((suite) => suite.state === "ready").length;
  const bad = troubled(suites).length;
  const flying = figures.sum(sessions.map((session) => session.inFlight ?? 0));
  const tiles = [
    ["Servers", count(suites.length), `${count(ready)} running${bad ? `, ${count(bad)} ${bad === 1 ? "needs" : "need"} attention` : ""}`, bad > 0],
    ["Processes", count(status.budget?.running ?? running.length), status.budget ? `of at most ${count(status.budget.children)}` : "running"],
    ["Editors", count(sessions.length), flying ? `${plural(flying, "call")} running` : "no call running"],
  ];
  if (calls) {
    const bad = [calls.errors && `${count(calls.errors)} failed (${share(calls.errors, calls.total)})`, calls.refused && `${count(calls.refused)} refused`];
    tiles.push(["Calls", count(calls.total), bad.filter(Boolean).join(", ") || "none failed", calls.errors > 0]);
    tiles.push(["Latency", calls.total ? latency(calls.p50) : "–", calls.total ? `median; p99 ${latency(calls.p99)}` : "no calls yet"]);
  }
  const used = memoryTile(status, running);
  if (used) tiles.push(used);
  keep(by("tiles"), tiles, ([label]) => label, tile);
  traffic(status);
}

function memoryTile(status, running) {
  const known = running.map((child) => child.memoryKb).filter((kib) => typeof kib === "number");
  const children = figures.sum(known);
  const daemon = status.memoryKb;
  if (typeof daemon !== "number" && !known.length) return null;
  return ["Memory", memory((daemon ?? 0) + children), `daemon ${memory(daemon)}, servers ${memory(children)}`];
}

function traffic(status) {
  const there = Array.isArray(status.calls?.series);
  show(by("traffic"), there);
  if (!there) return;
  points = figures.lately(status, status.nowMs);
  chart.update(points, `${figures.tally(points)} in the last five minutes`);
  say(by("traffic-most"), count(Math.max(1, ...points.map((point) => point.count))));
  for (const key of ["errors", "refused"]) show(by(`legend-${key}`), points.some((point) => point[key]));
  point();
}

/** The words beside the chart: of the step that the pointer is over, else of all. */
function point() {
  const step = points[pointed];
  const ago = (points.length - 1 - pointed) * figures.STEP_MS;
  const words = step ? `${ago ? `${span(ago)} ago` : "now"}: ${figures.tally([step])} in 5 s` : figures.tally(points);
  say(by("traffic-words"), words);
  chart.point(pointed);
}

/** What a user has to do something about, with what to type. */
function attention(status, suites, whole) {
  const items = [];
  if (whole) {
    for (const problem of figures.problems(status)) {
      const [, file, why] = /^(\/\S+?(?::\d+:\d+)?): ([^]*)$/.exec(problem) ?? [null, "a file", problem];
      items.push({ key: `problem ${problem}`, state: "misconfigured", what: file, why });
    }
    const next = status.restartPending;
    if (next?.problem) {
      const says = "was replaced and cannot take over:";
      items.push({ key: "successor", state: "failed", what: next.binary, says, why: next.problem, type: "switchboard doctor" });
    }
    for (const suite of suites) {
      const name = quoted(suite.child ?? suite.name);
      const where = suite.workspace ? `--workspace ${quoted(suite.workspace)} ` : "";
      const item = { key: `${suite.workspace} ${suite.file} ${suite.name}`, state: suite.state, what: suite.child ?? plain(suite.name) };
      if (suite.waiting) {
        const says = suite.state === "held" ? "waits for your approval; it would run" : "has an update that waits for your approval; it would run";
        items.push({ ...item, state: "held", says, why: suite.waiting, type: `switchboard ${where}allow ${name}` });
      } else if (["failed", "resting"].includes(suite.state)) {
        items.push({ ...item, why: suite.lastError, type: `switchboard ${where}logs ${name}` });
      } else if (["misconfigured", "held"].includes(suite.state)) {
        const fix = /`(switchboard secret set [^`]+)`/.exec(suite.lastError ?? "")?.[1];
        items.push({ ...item, why: suite.lastError, type: fix ?? `switchboard ${where}explain ${name}` });
      }
    }
  }
  show(by("attention"), items.length > 0);
  keep(by("attention-list"), items.slice(0, 50), (item) => item.key, () => {
    const [what, says, why, type] = [el("bdi", { class: "strong" }), el("span"), el("bdi", { class: "why" }), copyable("")];
    const [state, quote] = [pill(), el("div", { class: "quote" }, why)];
    return {
      node: el("li", {}, el("div", { class: "aside" }, state.node), el("div", {}, el("p", {}, what, says), quote, el("p", { class: "type" }, type))),
      update(item) {
        state.update(item.state);
        say(what, visible(item.what, 200));
        say(says, item.says ? ` ${item.says}` : "");
        failure(why, item.why ?? "");
        show(quote, Boolean(item.why));
        type.update(item.type ?? "");
        show(type.parentNode, Boolean(item.type));
      },
    };
  });
}

function sessions(status, whole) {
  show(by("sessions"), whole);
  if (!whole) return;
  const list = figures.editors(status).sort((a, b) => b.ageMs - a.ageMs);
  say(by("sessions-title"), `Connected editors (${count(list.length)})`);
  show(by("session-table"), list.length > 0);
  show(by("session-none"), list.length === 0);
  // The order of their opening tells them apart; nothing else of them has to differ.
  keep(by("session-rows"), list, (session) => `${session.client ?? ""}\n${session.workspace ?? ""}`, () => {
    const host = el("bdi");
    const cells = ["Project", "MCP", "Calls running", "Open for"].map((label, at) =>
      el("td", { role: "cell", "data-label": label, class: at > 1 ? "number" : "" }),
    );
    const [folder, revision, flying, since] = cells;
    const place = el("bdi");
    folder.append(place);
    return {
      node: el("tr", { role: "row" }, el("th", { role: "rowheader", scope: "row" }, host), ...cells),
      update(session) {
        say(host, visible(session.client ?? "an editor without a name", 60));
        say(place, visible(session.workspace ?? "none", 200));
        say(revision, visible(session.revision ?? "–", 20));
        say(flying, count(session.inFlight ?? 0));
        age(since, session.ageMs ?? 0, span);
      },
    };
  });
}

let before = null;

/** Says which servers changed their state, for those who do not see it. */
function announce(suites) {
  const key = (suite) => `${suite.workspace ?? ""}\n${suite.name}`;
  const now = new Map(suites.map((suite) => [key(suite), suite]));
  const changed = before ? suites.filter((suite) => before.has(key(suite)) && before.get(key(suite)).state !== suite.state) : [];
  const came = before ? suites.filter((suite) => !before.has(key(suite))) : [];
  const words = [...came.map((suite) => `${visible(suite.child ?? plain(suite.name), 60)} is new`), ...changed.map((suite) => `${visible(suite.child ?? plain(suite.name), 60)} is ${stateWord(suite.state)}`)];
  before = now;
  if (words.length) by("news").textContent = words.length > 3 ? `${words.length} servers changed` : words.join("; ");
}

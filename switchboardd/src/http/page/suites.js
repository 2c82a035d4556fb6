// The table of suites: one row each, with all that is known of it folded under its name.

import { bars } from "./charts.js";
import { age, by, el, explain, keep, mark, say, show } from "./dom.js";
import * as figures from "./figures.js";
import { count, latency, memory, plural, quoted, span, visible } from "./words.js";

const COLUMNS = [
  ["Suite", ""],
  ["State", ""],
  ["Calls", "number"],
  ["Failed", "number"],
  ["p50", "number"],
  ["p99", "number"],
  ["Last 5 min", "chart"],
  ["Children", "number"],
  ["Memory", "number"],
];

/** The states that there are, the ones that want somebody first. */
export const STATES = ["failed", "misconfigured", "held", "resting", "starting", "ready", "cold"];

let all = [];
let whole = false;

export function drawSuites(list, isWhole) {
  all = list;
  whole = isWhole;
  const columns = whole ? COLUMNS : COLUMNS.slice(0, 2);
  keep(by("suite-head"), columns, ([name]) => name, ([name, kind]) => ({
    node: el("th", { role: "columnheader", scope: "col", class: kind }, name),
    update() {},
  }));
  states();
  sift();
}

/** The choice of states, as far as they occur. */
function states() {
  const select = by("state-filter");
  const there = STATES.filter((state) => all.some((suite) => suite.state === state) || select.value === state);
  keep(select, there, (state) => state, (state) => ({
    node: el("option", { value: state }, state),
    update() {},
  }));
}

export function sift() {
  const words = by("filter").value.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const state = by("state-filter").value;
  const fits = (suite) => {
    if (state && suite.state !== state) return false;
    const text = [suite.name, suite.child, suite.state, suite.description, suite.workspace, suite.file].join("\n").toLowerCase();
    return words.every((word) => text.includes(word));
  };
  const shown = all.filter(fits);
  const groups = [];
  for (const suite of shown) {
    if (suite.workspace && groups.at(-1)?.workspace !== suite.workspace) groups.push({ workspace: suite.workspace, title: true });
    groups.push(suite);
  }
  keep(by("suite-table"), groups, keyOf, (item) => (item.title ? title(item) : whole ? row(item) : name(item)));
  show(by("suite-table"), shown.length > 0);
  const none = by("suite-none");
  show(none, shown.length === 0);
  if (!shown.length) explain(none, all.length ? "No suite fits this filter." : "There are no suites yet. `switchboard add --help` shows how to define one.");
  const heading = by("suites-title");
  say(heading, shown.length === all.length ? `Suites (${count(all.length)})` : `Suites (${count(shown.length)} of ${count(all.length)})`);
}

const keyOf = (item) => (item.title ? `title ${item.workspace}` : `${whole} ${item.workspace ?? ""}\n${item.file ?? ""}\n${item.name}`);

function title(item) {
  const words = el("th", { role: "rowheader", scope: "rowgroup", colspan: COLUMNS.length }, "of ", el("bdi", {}, visible(item.workspace, 200)));
  return { node: el("tbody", { role: "rowgroup", class: "title" }, el("tr", { role: "row" }, words)), update() {} };
}

const cell = (label, kind, ...children) => el("td", { role: "cell", class: kind, "data-label": label }, ...children);

export function pill() {
  const node = el("span", { class: "pill" });
  return {
    node,
    update(state) {
      mark(node, "data-state", STATES.includes(state) ? state : "cold");
      say(node, visible(state, 20));
    },
  };
}

/** Without more than names. */
function name(item) {
  const state = pill();
  const node = el(
    "tbody",
    { role: "rowgroup", class: "suite" },
    el("tr", { role: "row" }, el("th", { role: "rowheader", scope: "row", class: "name" }, el("bdi", {}, visible(item.name, 80))), cell("State", "state", state.node)),
  );
  return { node, update: (suite) => state.update(suite.state) };
}

let numbered = 0;

function row(item) {
  const id = `suite-${++numbered}`;
  const state = pill();
  const chart = bars(120, 22);
  const cells = Object.fromEntries(COLUMNS.slice(2).map(([label, kind]) => [label, cell(label, kind)]));
  cells["Last 5 min"].append(chart.node);
  const fold = el("button", { type: "button", "aria-expanded": "false", "aria-controls": id }, el("bdi", {}, visible(item.name, 80)));
  const more = details();
  const under = el("tr", { role: "row", class: "details", id }, el("td", { role: "cell", colspan: COLUMNS.length }, more.node));
  under.hidden = true;
  let latest = item;
  fold.addEventListener("click", () => {
    under.hidden = !under.hidden;
    mark(fold, "aria-expanded", String(!under.hidden));
    if (!under.hidden) more.update(latest);
  });
  const head = el("th", { role: "rowheader", scope: "row", class: "name" }, fold);
  const node = el("tbody", { role: "rowgroup", class: "suite" }, el("tr", { role: "row" }, head, cell("State", "state", state.node), ...Object.values(cells)), under);
  const update = (suite) => {
    latest = suite;
    state.update(suite.state);
    const calls = figures.calls(suite);
    const points = figures.lately(suite, suite.nowMs);
    const recent = figures.sum(points.map((point) => point.count));
    say(cells.Calls, calls ? count(calls.total) : "–");
    say(cells.Failed, calls ? count(calls.errors) : "–");
    mark(cells.Failed, "data-bad", calls?.errors ? "" : null);
    say(cells.p50, calls?.total ? latency(calls.p50) : "–");
    say(cells.p99, calls?.total ? latency(calls.p99) : "–");
    chart.update(points, `${plural(recent, "call")} in the last five minutes`);
    const running = figures.children(suite).length;
    say(cells.Children, suite.pool ? `${running} of ${suite.pool.max}` : "–");
    say(cells.Memory, memory(figures.memoryOf(suite)));
    for (const [label, node] of Object.entries(cells)) {
      const none = label === "Last 5 min" ? recent === 0 : node.textContent === "–" || (["Calls", "Failed"].includes(label) && !calls?.total);
      mark(node, "data-none", none ? "" : null);
    }
    if (!under.hidden) more.update(suite);
  };
  return { node, update };
}

/** What is folded under a suite's name. */
function details() {
  const facts = el("dl", { class: "facts" });
  const running = el("ul", { class: "children" });
  const node = el("div", { class: "more" }, facts, running);
  const update = (suite) => {
    const drift = suite.drift;
    const command = suite.state === "held" || drift ? "allow" : "explain";
    const pool = suite.pool;
    const idle = figures.children(suite).filter((child) => child.inFlight === 0).length;
    const about = [
      ["for", suite.description],
      ["last error", suite.lastError],
      [suite.state === "held" ? "would run" : "an update would run", suite.waiting],
      [drift?.held ? "tools held" : "tools changed", drift && [drift.summary, ...(drift.keepsSplit ? ["stays two tools until you accept this"] : []), ...(drift.changes ?? []).flatMap((change) => change.details)].join("; ")],
      ["at", suite.url],
      ["pool", pool && `scope ${pool.scope}, ${pool.warm} warm, at most ${pool.max}; ${figures.children(suite).length} running, ${idle} idle, ${plural(pool.starts, "start")} so far; idle ones go after ${span(pool.idleMs)}`],
      ["file", suite.file],
      ["type", `switchboard ${command} ${quoted(suite.child ?? suite.name)}`],
    ].filter(([, words]) => words);
    keep(facts, about, ([label]) => label, ([label]) => {
      const words = el(label === "type" ? "code" : "bdi");
      return {
        node: el("div", { class: label === "last error" || label.startsWith("tools ") ? "bad" : "" }, el("dt", {}, label), el("dd", {}, words)),
        update: ([, text]) => (label === "type" ? say : explain)(words, visible(text, 600)),
      };
    });
    keep(running, figures.children(suite), (child) => `${child.pid ?? ""}`, () => {
      const what = el("span");
      const since = el("span");
      return {
        node: el("li", {}, what, since),
        update(child) {
          const words = [child.pid ? `pid ${child.pid}` : "elsewhere", `revision ${visible(child.revision ?? "?", 20)}`];
          if (typeof child.memoryKb === "number") words.push(memory(child.memoryKb));
          if (typeof child.tools === "number") words.push(plural(child.tools, "subtool"));
          words.push(child.inFlight ? `${count(child.inFlight)} in flight` : "idle");
          if (child.ownedBySession) words.push("one session's own");
          say(what, `${words.join(" · ")} · `);
          age(since, child.ageMs ?? 0, (ms) => `running for ${span(ms)}`);
        },
      };
    });
    show(running, figures.children(suite).length > 0);
  };
  return { node, update };
}

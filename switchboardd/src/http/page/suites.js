// The table of servers: one row each, with all that is known of it folded under its name.

import { bars } from "./charts.js";
import { details } from "./details.js";
import { by, el, explain, keep, mark, say, show } from "./dom.js";
import * as figures from "./figures.js";
import { count, latency, memory, plain, stateWord, visible } from "./words.js";

const COLUMNS = [
  ["Server", ""],
  ["State", ""],
  ["Calls", "number"],
  ["Failed", "number"],
  ["Refused", "number"],
  ["Median", "number"],
  ["p99", "number"],
  ["Last 5 min", "chart"],
  ["Processes", "number"],
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
    node: el("option", { value: state }, stateWord(state)),
    update() {},
  }));
}

export function sift() {
  const words = by("filter").value.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const state = by("state-filter").value;
  const fits = (suite) => {
    if (state && suite.state !== state) return false;
    const text = [suite.name, suite.child, stateWord(suite.state), suite.description, suite.workspace, suite.file].join("\n").toLowerCase();
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
  if (!shown.length) explain(none, all.length ? "No server fits this filter." : "There are no servers yet. `switchboard import` takes those of your editors, `switchboard add --help` shows how to define one.");
  const heading = by("suites-title");
  say(heading, shown.length === all.length ? `Servers (${count(all.length)})` : `Servers (${count(shown.length)} of ${count(all.length)})`);
}

const keyOf = (item) => (item.title ? `title ${item.workspace}` : `${whole} ${item.workspace ?? ""}\n${item.file ?? ""}\n${item.name}`);

function title(item) {
  const words = el("th", { role: "rowheader", scope: "rowgroup", colspan: COLUMNS.length }, "Servers of ", el("bdi", {}, visible(item.workspace, 200)));
  return { node: el("tbody", { role: "rowgroup", class: "title" }, el("tr", { role: "row" }, words)), update() {} };
}

const cell = (label, kind, ...children) => el("td", { role: "cell", class: kind, "data-label": label }, ...children);

export function pill() {
  const node = el("span", { class: "pill" });
  return {
    node,
    update(state) {
      mark(node, "data-state", STATES.includes(state) ? state : "cold");
      say(node, visible(stateWord(state), 20));
    },
  };
}

/** Without more than names. */
function name(item) {
  const state = pill();
  const node = el(
    "tbody",
    { role: "rowgroup", class: "suite" },
    el("tr", { role: "row" }, el("th", { role: "rowheader", scope: "row", class: "name" }, el("bdi", {}, visible(plain(item.name), 80))), cell("State", "state", state.node)),
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
  const fold = el("button", { type: "button", "aria-expanded": "false", "aria-controls": id }, el("bdi", {}, visible(item.child ?? plain(item.name), 80)));
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
    // A server without calls has nothing to say; a dash is quieter than a zero.
    say(cells.Calls, calls?.total ? count(calls.total) : "–");
    say(cells.Failed, calls?.errors ? count(calls.errors) : "–");
    mark(cells.Failed, "data-bad", calls?.errors ? "" : null);
    say(cells.Refused, calls?.refused ? count(calls.refused) : "–");
    say(cells.Median, calls?.total ? latency(calls.p50) : "–");
    say(cells.p99, calls?.total > 1 ? latency(calls.p99) : "–");
    chart.update(points, `${figures.tally(points)} in the last five minutes`);
    const running = figures.processes(suite).filter((process) => process.pid).length;
    const most = suite.pool?.max ?? 1;
    say(cells.Processes, running === 0 ? "–" : most > 1 ? `${running} of ${most}` : String(running));
    say(cells.Memory, memory(figures.memoryOf(suite)));
    for (const [label, node] of Object.entries(cells)) {
      const none = label === "Last 5 min" ? recent === 0 : node.textContent === "–";
      mark(node, "data-none", none ? "" : null);
    }
    if (!under.hidden) more.update(suite);
  };
  return { node, update };
}

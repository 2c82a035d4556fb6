// The list of the latest calls: who called what, and what came of it.

import { age, by, el, explain, keep, mark, show } from "./dom.js";
import { latency, outcome, span, visible } from "./words.js";

const WARN = ["refused", "held", "asked", "declined", "unavailable", "stopped"];

/** `switchboard calls` shows more. */
const SHOWN = 25;

/** The colour of an outcome. */
function tone(outcome) {
  if (outcome === "ok") return "ready";
  if (outcome === "cancelled") return "cold";
  return WARN.includes(outcome) ? "held" : "failed";
}

/** What is called: a tool of the server, or another way of using it. */
const target = (call) => (call.what === "call" ? (call.tool ?? "–") : `(${call.what})`);

/** When the daemon last said something, by its own clock. */
let latest = 0;

export function drawCalls(status, whole, serverName) {
  latest = status.nowMs;
  const list = (whole && status.recentCalls) || [];
  const off = status.record?.mode === "off";
  show(by("calls"), whole && Array.isArray(status.recentCalls));
  show(by("call-table"), list.length > 0);
  show(by("call-none"), list.length === 0);
  explain(by("call-none"), off ? "Calls are not recorded: `record` is \"off\" in your config." : "No call is recorded yet.");
  keep(by("call-rows"), list.slice(0, SHOWN), (call) => `${call.at} ${call.ms} ${call.host} ${call.suite} ${call.tool}`, (call) => row(call, serverName));
}

function row(call, serverName) {
  const cell = (label, words, most, kind = "") =>
    el("td", { role: "cell", "data-label": label, class: kind }, el("bdi", {}, visible(words, most)));
  const since = el("th", { role: "rowheader", scope: "row", class: "quiet" });
  const word = el("span", { class: "pill" }, visible(call.outcome, 20));
  mark(word, "data-state", tone(call.outcome));
  const why = outcome(call).slice(visible(call.outcome, 20).length + 2);
  const result = el("td", { role: "cell", "data-label": "Outcome" }, word, why ? el("span", { class: "quiet" }, ` ${why}`) : "");
  const node = el(
    "tr",
    { role: "row" },
    since,
    cell("Editor", call.host ?? "an editor without a name", 60),
    cell("Project", call.workspace ?? "none", 200),
    cell("Server", call.server ?? (call.suite ? serverName(call.suite) : "–"), 80),
    cell("Tool", target(call), 80),
    cell("Took", latency(call.ms), 20, "number"),
    result,
  );
  return { node, update: (call) => age(since, Math.max(0, latest - call.at - call.ms), (ms) => `${span(ms)} ago`) };
}

// The list of the latest calls: who called what, and what came of it.

import { age, by, el, explain, keep, mark, show } from "./dom.js";
import { latency, span, visible } from "./words.js";

const WARN = ["refused", "held", "asked", "declined", "unavailable", "stopped"];

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

export function drawCalls(status, whole) {
  latest = status.nowMs;
  const list = (whole && status.recentCalls) || [];
  const off = status.record?.mode === "off";
  show(by("calls"), whole && Array.isArray(status.recentCalls));
  show(by("call-table"), list.length > 0);
  show(by("call-none"), list.length === 0);
  explain(by("call-none"), off ? "Calls are not recorded: `record` is \"off\" in your config." : "No call is recorded yet.");
  keep(by("call-rows"), list.slice(0, 50), (call) => `${call.at} ${call.ms} ${call.host} ${call.suite} ${call.tool}`, row);
}

function row(call) {
  const cell = (label, words, most, kind = "") =>
    el("td", { role: "cell", "data-label": label, class: kind }, el("bdi", {}, visible(words, most)));
  const since = el("th", { role: "rowheader", scope: "row", class: "quiet" });
  const word = el("span", { class: "pill" }, visible(call.outcome, 20));
  mark(word, "data-state", tone(call.outcome));
  const more = [call.kind === call.outcome ? null : call.kind, call.asked ? "user was asked" : null, call.retry ? "after an answer" : null];
  const why = more.filter(Boolean).map((part) => visible(part, 40)).join(", ");
  const outcome = el("td", { role: "cell", "data-label": "Outcome" }, word, why ? el("span", { class: "quiet" }, ` ${why}`) : "");
  const node = el(
    "tr",
    { role: "row" },
    since,
    cell("Host", call.host ?? "a host that gave no name", 60),
    cell("Workspace", call.workspace ?? "none", 200),
    cell("Suite", call.suite ?? "–", 80),
    cell("Tool", target(call), 80),
    cell("Took", latency(call.ms), 20, "number"),
    outcome,
  );
  return { node, update: (call) => age(since, Math.max(0, latest - call.at - call.ms), (ms) => `${span(ms)} ago`) };
}

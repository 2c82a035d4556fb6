// The last errors, the same ones folded into one.

import { age, by, el, failure, keep, say, show } from "./dom.js";
import { count, kind, span, visible } from "./words.js";

/** When the daemon last said something, by its own clock. */
let latest = 0;

export function drawErrors(status, whole, serverName) {
  latest = status.nowMs;
  const list = folded((whole && status.lastErrors) || []);
  show(by("errors"), list.length > 0);
  keep(by("error-list"), list.slice(0, 20), (error) => error.key, (error) => {
    const since = el("span", { class: "quiet when" });
    const times = el("span", { class: "times" });
    const [what, quote] = [el("bdi"), el("div", { class: "quote" })];
    quote.append(what);
    const head = el("p", {}, el("bdi", { class: "strong" }, place(error, serverName)), el("span", { class: "quiet" }, ` ${kind(error.kind ?? "")} `), times);
    // That a result says `isError` is said by its kind already.
    failure(what, /says `isError`$/.test(error.message ?? "") ? "" : (error.message ?? ""));
    return {
      node: el("li", {}, since, el("div", {}, head, quote)),
      update(error) {
        say(times, error.times > 1 ? `×${count(error.times)}` : "");
        age(since, Math.max(0, latest - error.at), (ms) => `${error.times > 1 ? "last " : ""}${span(ms)} ago`);
      },
    };
  });
}

/** Newest first, each with how often it happened. */
function folded(errors) {
  const all = new Map();
  for (const error of errors) {
    const key = [error.suite, error.tool, error.kind, error.message].join("\n");
    const known = all.get(key);
    if (known) known.times++;
    else all.set(key, { ...error, key, times: 1 });
  }
  return [...all.values()];
}

/** The server and its tool, as far as they are known. */
function place(error, serverName) {
  if (!error.suite) return error.method === "_other" ? "an unknown method" : visible(error.method, 80);
  const tool = error.tool === "_other" || error.tool === error.suite ? null : error.tool;
  return [serverName(error.suite), tool].filter(Boolean).map((word) => visible(word, 80)).join(" › ");
}

// What Switchboard saves, and what it costs: tokens, processes, memory, waiting.

import { by, el, explain, keep, mark, say, show, svg } from "./dom.js";
import { count, latency, memory, plural, visible } from "./words.js";

const body = by("savings-body");
const headline = el("p", { class: "headline" });
const scale = measure();
const figures = el("dl", { class: "figures" });
const words = el("ul", { class: "words" });
const note = el("p", { class: "quiet note" });
body.append(headline, scale.node, figures, words, note);

export function drawSavings(savings) {
  show(by("savings"), Boolean(savings));
  if (!savings) return;
  const { perSession, tokens, processes, memory: taken, coldStarts } = savings;
  const sentence = visible(savings.headline, 400);
  say(headline, sentence.slice(0, 1).toUpperCase() + sentence.slice(1));
  scale.update(perSession);
  show(scale.node, perSession.suites > 0);
  const list = [];
  if (tokens.sessions) {
    list.push(["Tokens so far", signed(tokens.net), `in ${plural(tokens.sessions, "session")}; ${count(tokens.introspected)} fetched by introspection are taken off`]);
  }
  // Without an editor there is nothing to compare with.
  if (processes.sessions) {
    list.push(["Processes", `${count(processes.running)} instead of ${count(processes.without)}`, `${plural(processes.sessions, "editor window")} would start ${count(processes.without)}; used of them so far: ${count(processes.used)}`]);
    const own = memory(kib((taken.daemonBytes ?? 0) + taken.shimsBytes));
    const more = taken.avoidedBytes > 512 ? `without Switchboard about ${memory(kib(taken.avoidedBytes))} more${taken.unknownServers ? ", and that of servers that do not run" : ""}` : "no copies are spared now";
    list.push(["Memory", memory(kib(taken.childrenBytes)), `${more}; daemon and shims take ${own}`]);
  }
  if (coldStarts.avoided || coldStarts.added) {
    const more = coldStarts.added ? `; ${plural(coldStarts.added, "wait")} for a server that had been stopped, ${latency(coldStarts.addedMs)}` : "";
    list.push(["Waiting avoided", latency(coldStarts.avoidedMs), `${plural(coldStarts.avoided, "start")} of servers that already ran${more}`]);
  }
  keep(figures, list, ([label]) => label, ([label]) => {
    const [big, small] = [el("dd", { class: "big" }), el("dd", { class: "small" })];
    return {
      node: el("div", {}, el("dt", {}, label), big, small),
      update([, value, more]) {
        say(big, value);
        say(small, more);
      },
    };
  });
  // What can be done about small suites is the same for each, and said once.
  const short = (word) => word.split("; `suites.")[0];
  const said = savings.suites.filter((suite) => suite.word).slice(0, 5);
  if (said.filter((suite) => short(suite.word) !== suite.word).length > 1) {
    said.forEach((suite, at) => (said[at] = { ...suite, word: short(suite.word) }));
    said.push({ name: "", word: '`suites.NAME.show: "tools"` shows a server\'s own tools instead of its suite' });
  }
  keep(words, said, (suite) => `${suite.workspace} ${suite.name}`, () => {
    const node = el("li");
    return { node, update: (suite) => explain(node, visible(suite.word, 300)) };
  });
  say(note, visible(savings.problem ?? savings.tokenizer.note, 300));
}

/** What is saved is told as such; what is lost, too. */
const signed = (number) => (number < 0 ? `${count(-number)} more` : number ? `${count(number)} fewer` : "0");

const kib = (bytes) => bytes / 1024;

/** Two bars: what a session begins with, with us and without. */
function measure() {
  const bar = (kind) => {
    const rect = svg("rect", { class: kind, height: 10, rx: 3 });
    const label = el("span");
    const node = el("p", {}, svg("svg", { viewBox: "0 0 400 10", preserveAspectRatio: "none", "aria-hidden": "true" }, rect), label);
    return { node, rect, label };
  };
  const [shown, listed] = [bar("shown"), bar("listed")];
  const node = el("div", { class: "scale" }, el("h3", {}, "Tokens that a session begins with"), shown.node, listed.node);
  const update = (session) => {
    const most = Math.max(1, session.shown, session.listed);
    for (const [bar, tokens, words] of [
      [shown, session.shown, `with Switchboard, ${plural(session.suites, "server")} counted`],
      [listed, session.listed, "with every tool listed"],
    ]) {
      mark(bar.rect, "width", ((400 * tokens) / most).toFixed(1));
      say(bar.label, `${count(tokens)} ${words}`);
    }
  };
  return { node, update };
}

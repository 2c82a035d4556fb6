// What Switchboard saves, and what it costs: tokens, processes, memory, waiting.

import { by, el, explain, keep, mark, say, show, svg } from "./dom.js";
import { count, latency, memory, plural, visible } from "./words.js";

const body = by("savings-body");
const scale = measure();
const figures = el("dl", { class: "figures" });
const words = el("ul", { class: "words" });
const note = el("p", { class: "quiet note" });
body.append(scale.node, figures, words, note);

export function drawSavings(savings) {
  show(by("savings"), Boolean(savings));
  if (!savings) return;
  const { perSession, tokens, processes, memory: taken, coldStarts } = savings;
  scale.update(perSession);
  const list = [
    ["Tokens so far", signed(tokens.net), `in ${plural(tokens.sessions, "session")}, ${plural(tokens.introspections, "introspection")} taken off`],
    ["Processes", signed(processes.avoided), `${count(processes.running)} instead of ${count(processes.without)}; at most ${count(processes.peakAvoided)} fewer`],
    ["Memory", bytes(taken.netBytes), `of children, less the ${memory(kib((taken.daemonBytes ?? 0) + taken.shimsBytes))} of daemon and shims`],
    ["Cold starts", signed(coldStarts.avoided - coldStarts.added), `${latency(coldStarts.avoidedMs)} of waiting avoided, ${latency(coldStarts.addedMs)} added`],
  ];
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
  const said = savings.suites.filter((suite) => suite.word).slice(0, 5);
  keep(words, said, (suite) => `${suite.workspace} ${suite.name}`, () => {
    const node = el("li");
    return { node, update: (suite) => explain(node, visible(suite.word, 300)) };
  });
  say(note, visible(savings.problem ?? savings.tokenizer.note, 300));
}

/** What is saved is told as such; what is lost, too. */
const signed = (number) => (number < 0 ? `${count(-number)} more` : number ? `${count(number)} fewer` : "0");

const kib = (bytes) => bytes / 1024;

const bytes = (number) => (Math.abs(number) < 512 ? "0" : `${memory(kib(Math.abs(number)))} ${number < 0 ? "more" : "less"}`);

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
      [shown, session.shown, `with suites, ${plural(session.suites, "suite")} counted`],
      [listed, session.listed, "with every tool listed"],
    ]) {
      mark(bar.rect, "width", ((400 * tokens) / most).toFixed(1));
      say(bar.label, `${count(tokens)} ${words}`);
    }
  };
  return { node, update };
}

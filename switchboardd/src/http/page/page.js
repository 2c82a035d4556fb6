// The status page: what the daemon says, drawn again whenever it says something new.

import { by, el, growOlder, mark, say, show } from "./dom.js";
import { WHY, connect, read } from "./link.js";
import { drawSavings } from "./savings.js";
import { sift } from "./suites.js";
import { draw } from "./view.js";

const STATES = {
  connecting: "connecting",
  live: "live",
  names: "names only",
  gone: "switchboardd is gone, waiting for it",
  busy: "too many status pages are open, waiting for one to close",
};

const open = () => el("code", {}, "switchboard open");

const NOTICES = {
  [WHY.none]: () => ["These are names and states only. ", open(), " in a terminal opens this page with everything on it."],
  [WHY.used]: () => ["This address was used already, or is older than 30 s. Type ", open(), " once more."],
  [WHY.void]: () => ["switchboardd was restarted, or let this page in too long ago. Type ", open(), " to see everything again."],
  [WHY.closed]: () => ["Nothing is shown to those who come without a code. Type ", open(), " in a terminal."],
};

let last = null;

function notice(why) {
  // Why an address did not work is of more use than that it did not.
  if (why === WHY.none && last && last !== WHY.none) return;
  if (why === last) return;
  last = why;
  const node = by("notice");
  node.replaceChildren(...(why ? NOTICES[why]() : []));
  show(node, Boolean(why));
}

/** Savings are counted by a process of its own: that is worth a look a minute. */
const SAVINGS = 60_000;
let counted = -Infinity;

async function savings() {
  if (document.body.dataset.link !== "live" || document.hidden || performance.now() - counted < SAVINGS) return;
  counted = performance.now();
  const found = await read("/savings");
  if (found) drawSavings(found);
}

connect({
  state(word) {
    if (word === "names") {
      counted = -Infinity;
      drawSavings(null);
    }
    mark(by("link"), "data-state", word);
    mark(document.body, "data-link", word);
    say(by("link-words"), STATES[word]);
    void savings();
  },
  why: notice,
  status: draw,
});

by("filter").addEventListener("input", sift);
by("state-filter").addEventListener("change", sift);
setInterval(() => document.hidden || growOlder(), 1000);
setInterval(() => void savings(), 5_000);

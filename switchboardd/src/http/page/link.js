// The way to the daemon: a code for a bearer, a feed for as long as there is one, and patience when there is not.

const KEY = "switchboard-bearer";
/** The daemon says something every 15 s: a connection that is silent for this long is dead. */
const SILENCE = 45_000;
/** Without a bearer there is no feed, and names change seldom. */
const LOOK = 10_000;
const FIRST_WAIT = 500;
const LONGEST_WAIT = 8_000;
/** A page that nobody sees is not kept up to date. */
const UNSEEN = 20_000;

/** The words for what stops a page from showing all. */
export const WHY = { none: "none", used: "used", void: "void", closed: "closed" };

/**
 * Calls `on.status(status, whole)` with each status, `on.state(word)` when the way changes (`connecting`, `live`,
 * `names`, `gone`, `busy`) and `on.why(word)` when it is found out why there is not more.
 */
export function connect(on) {
  let attempt = 0;
  let stop = new AbortController();
  let run = 0;

  const begin = () => {
    stop.abort();
    stop = new AbortController();
    void live(++run, stop.signal);
  };

  const live = async (mine, signal) => {
    while (mine === run) {
      if (document.hidden) return;
      const outcome = await visit(signal, on).catch(() => "gone");
      if (mine !== run) return;
      if (outcome === "again") {
        attempt = 0;
        await pause(FIRST_WAIT, signal);
      } else if (outcome === "names") {
        attempt = 0;
        await pause(LOOK, signal);
      } else {
        on.state(outcome);
        await pause(Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** attempt++) * (0.75 + Math.random() / 2), signal);
      }
    }
  };

  let unseen;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(unseen);
    if (document.hidden) {
      unseen = setTimeout(() => {
        run++;
        stop.abort();
        on.state("connecting");
      }, UNSEEN);
    } else if (stop.signal.aborted) {
      attempt = 0;
      begin();
    }
  });
  // The same address with another code does not load the page anew.
  window.addEventListener("hashchange", () => void enter(on).then((entered) => entered && begin()));
  void enter(on).then(begin);
}

/** Changes the code in the address for a bearer. The code leaves the address first, whatever comes of it. */
async function enter(on) {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code === null) return false;
  history.replaceState(null, "", location.pathname + location.search);
  try {
    const answer = await ask("/page/session", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ code }),
    });
    if (answer.ok) {
      sessionStorage.setItem(KEY, (await answer.json()).bearer);
      return true;
    }
    // One that was let in before may still hold.
    if (!sessionStorage.getItem(KEY)) on.why(WHY.used);
  } catch {
    // The daemon is not there: what follows finds that out, too.
  }
  return true;
}

/**
 * Whether the one who answers knows our bearer. While the daemon is away, another user of this machine can listen on its
 * port, and must not be sent the bearer. Such a listener cannot make a proof, and one for another port does not fit.
 */
async function isOurs(bearer, signal) {
  if (!globalThis.crypto?.subtle) return false;
  const nonce = digits(crypto.getRandomValues(new Uint8Array(32)));
  const answer = await ask(`/page/proof?nonce=${nonce}`, { signal });
  if (answer.status >= 500) throw new Error("busy");
  if (!answer.ok) return false;
  const wanted = await sha256(`${await sha256(bearer)}\n${location.host}\n${nonce}`);
  return (await answer.json()).proofs.includes(wanted);
}

const sha256 = async (text) => digits(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))));
const digits = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

/** Whether the daemon behind the page has shown that it is ours. */
let known = false;

/** One look, and a feed if we may have one. Says how it ended. */
async function visit(signal, on) {
  const kept = sessionStorage.getItem(KEY);
  known = kept !== null && (await isOurs(kept, signal));
  const bearer = known ? kept : null;
  try {
    return await look(kept, bearer, signal, on);
  } finally {
    known = false;
  }
}

async function look(kept, bearer, signal, on) {
  const headers = bearer ? { authorization: `Bearer ${bearer}` } : {};
  const answer = await ask("/status", { headers, signal });
  if (answer.status === 401) {
    sessionStorage.removeItem(KEY);
    on.why(kept ? WHY.void : WHY.closed);
    on.state("names");
    return "names";
  }
  if (!answer.ok) return "gone";
  const status = await answer.json();
  const whole = "pid" in status;
  if (!whole) {
    // A bearer that shows no more than names is too old, or was taken back by `switchboard stop`.
    sessionStorage.removeItem(KEY);
    on.why(kept ? WHY.void : WHY.none);
    on.state("names");
    on.status(status, false);
    return "names";
  }
  on.why(null);
  on.status(status, true);
  return follow(headers, signal, on);
}

async function follow(headers, signal, on) {
  const dead = new AbortController();
  const either = AbortSignal.any([signal, dead.signal]);
  const answer = await ask("/status/events", { headers, signal: either });
  if (!answer.ok) return answer.status === 503 && !answer.headers.has("switchboard-draining") ? "busy" : "gone";
  on.state("live");
  let silence = setTimeout(() => dead.abort(), SILENCE);
  try {
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return "again";
      clearTimeout(silence);
      silence = setTimeout(() => dead.abort(), SILENCE);
      const events = (rest + value).split("\n\n");
      rest = events.pop();
      for (const event of events) {
        const { kind, words } = parse(event);
        if (kind === "gone") return "gone";
        if (kind === "status") on.status(JSON.parse(words), true);
      }
    }
  } finally {
    clearTimeout(silence);
    dead.abort();
  }
}

function parse(event) {
  const lines = event.split("\n");
  const field = (name) => lines.filter((line) => line.startsWith(name)).map((line) => line.slice(name.length));
  return { kind: field("event: ")[0], words: field("data: ").join("\n") };
}

/** Something else that the page may read; `null` if it may not. */
export async function read(path) {
  const bearer = known ? sessionStorage.getItem(KEY) : null;
  if (!bearer) return null;
  const answer = await ask(path, { headers: { authorization: `Bearer ${bearer}` } }).catch(() => null);
  return answer?.ok ? answer.json() : null;
}

const ask = (path, options) =>
  fetch(path, { cache: "no-store", credentials: "omit", redirect: "error", referrerPolicy: "no-referrer", ...options });

const pause = (ms, signal) =>
  new Promise((done) => {
    if (signal.aborted) return done();
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), done()), { once: true });
  });

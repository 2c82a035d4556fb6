// Numbers and texts as people read them.

const whole = new Intl.NumberFormat("en");

export const count = (number) => whole.format(number);

export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

/** `0.4 ms`, `12 ms`, `1.5 s`: three digits say enough. */
export function latency(ms) {
  if (typeof ms !== "number" || !Number.isFinite(ms)) return "–";
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return ms < 100_000 ? `${(ms / 1000).toFixed(1)} s` : span(ms);
}

/** `12 s`, `3 min`, `2 h 05 min`, `4 d 1 h`. */
export function span(ms) {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return `${hours} h ${String(minutes % 60).padStart(2, "0")} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** From KiB. */
export function memory(kib) {
  if (typeof kib !== "number") return "–";
  if (kib < 1024) return `${Math.round(kib)} KiB`;
  const mib = kib / 1024;
  if (mib < 10) return `${mib.toFixed(1)} MiB`;
  if (mib < 1024) return `${Math.round(mib)} MiB`;
  return `${(mib / 1024).toFixed(1)} GiB`;
}

export function share(part, all) {
  if (!all) return "0 %";
  const percent = (100 * part) / all;
  return `${percent < 10 && percent > 0 ? percent.toFixed(1) : Math.round(percent)} %`;
}

/** A server's name as people write it, from the name that a model sees. */
export const plain = (name) => name.replace(/_suite(_write)?$/, "") || name;

/** What the words for programs mean. */
const KINDS = {
  _other: "an error of the server",
  answer_too_long: "its answer was too long",
  busy: "too many calls at a time",
  child_busy: "the server has too much waiting",
  child_exited: "the server ended",
  child_resting: "the server crashed too often and waits",
  child_spawn_failed: "the server could not be started",
  child_spawn_timeout: "the server did not start in time",
  child_still_starting: "the server is still starting",
  child_stopped: "the server was stopped",
  child_unreachable: "the server cannot be reached",
  child_unresponsive: "the server does not respond",
  child_unusable: "the server does not speak MCP as it should",
  connection_lost: "the connection was lost",
  credentials_refused: "the server refused the credentials",
  daemon_draining: "Switchboard was stopping",
  declined: "you declined",
  held: "waits for your approval",
  daemon_failed: "a fault of Switchboard",
  invalid_arguments: "wrong arguments",
  invalid_call: "wrong arguments",
  invalid_params: "wrong arguments",
  lacks_capability: "the editor cannot do this",
  misconfigured: "its configuration is wrong",
  needs_login: "needs a login",
  no_room: "no room for another server",
  no_such_child: "no such server",
  no_such_resource: "no such resource",
  no_workspace: "it needs a project, and this editor has none open",
  not_confirmed: "not confirmed",
  not_allowed: "not exposed by your configuration",
  redirected: "the server redirects to another place",
  request_state: "the question is no longer open",
  rpc_timeout: "no answer in time",
  tool_held: "a changed tool that you have not accepted",
  wrong_tool: "the wrong one of its two tools",
  tool_error: "the tool reported an error",
  unknown_method: "unknown method",
  unknown_tool: "no such tool",
  unsupported_version: "unsupported MCP revision",
};

/** The kind of an error in words for people. */
export const kind = (word) => KINDS[word] ?? (/^-\d+$/.test(word) ? `error ${word} of the server` : visible(word.replaceAll("_", " "), 60));

/** What came of a recorded call. */
export function outcome(call) {
  const more = [call.kind && call.kind !== call.outcome ? kind(call.kind) : null, call.asked ? "you were asked" : null, call.retry ? "after your answer" : null];
  const why = more.filter((part) => part && part !== call.outcome).join(", ");
  return why ? `${visible(call.outcome, 20)}: ${why}` : visible(call.outcome, 20);
}

// Control characters, marks of writing direction, and what has no width: they hide or reorder the rest.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb]|\udb40[\udc00-\udfff]/g;

/** Words of others, with nothing hidden in them, and no more than `most` characters. */
export function visible(words, most = 400) {
  const text = typeof words === "string" ? words : words === null || words === undefined ? "" : String(words);
  const seen = text
    .slice(0, 4 * most)
    .replace(HIDDEN, (found) => `\\u{${found.codePointAt(0).toString(16)}}`);
  const all = Array.from(seen);
  return all.length > most || text.length > 4 * most ? `${all.slice(0, most).join("")}…` : seen;
}

/** A word for a shell, quoted if it has to be. */
export const quoted = (word) =>
  /^[A-Za-z0-9_.\/@:-]+$/.test(word) && !word.startsWith("-") ? word : `'${word.replaceAll("'", "'\\''")}'`;

/** The state of a server as people read it; in JSON, a server that is paused after crashes is `resting`. */
export const stateWord = (state) => (state === "resting" ? "paused" : state);

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

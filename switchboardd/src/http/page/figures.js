// What a status says, picked apart: where each figure stands is known here and nowhere else.

import { count, plain, plural } from "./words.js";

const STEPS = 60;
export const STEP_MS = 5_000;

/** Calls and how long they took; `null` where nothing is counted. */
export function calls(of) {
  const figures = of.calls;
  if (!figures || typeof figures.total !== "number") return null;
  return { total: figures.total, errors: figures.errors ?? 0, refused: figures.refused ?? 0, p50: figures.p50Ms, p99: figures.p99Ms };
}

/** The last five minutes, one step each, those without a call among them. `now`: when it was told. */
export function lately(of, now) {
  const points = Array.from({ length: STEPS }, () => ({ count: 0, errors: 0, refused: 0 }));
  for (const point of of.calls?.series ?? []) {
    const at = STEPS - 1 - Math.floor((now - point.at) / STEP_MS);
    const place = points[Math.min(STEPS - 1, at)];
    if (!place) continue;
    place.count += point.count;
    place.errors += point.errors;
    place.refused += point.refused ?? 0;
  }
  return points;
}

/** What came of the calls of some steps, in words. */
export function tally(points) {
  const [all, failed, refused] = ["count", "errors", "refused"].map((key) => sum(points.map((point) => point[key])));
  if (!all) return "no calls";
  const parts = [plural(all, "call"), failed && `${count(failed)} failed`, refused && `${count(refused)} refused`];
  return parts.filter(Boolean).join(", ");
}

export const sum = (numbers) => numbers.reduce((all, number) => all + number, 0);

/** The name of a server as people write it; tables and errors of the daemon name its suite. */
export function serverNames(all) {
  const known = new Map(all.map((suite) => [suite.name, suite.child]));
  return (name) => known.get(name) ?? plain(name);
}

/** Each suite with where it is from and when that was told: the person's own first, then those of each workspace. */
export function suites(status) {
  const own = (status.suites ?? []).map((suite) => ({ ...suite, workspace: null, nowMs: status.nowMs, recentCalls: status.recentCalls }));
  const theirs = (status.workspaces ?? [])
    .filter(Boolean)
    .flatMap((workspace) => (workspace.suites ?? []).map((suite) => ({ ...suite, workspace: workspace.root, nowMs: status.nowMs, recentCalls: status.recentCalls })));
  // One of the user's own that runs once for each project is listed with its projects.
  const isTheirs = (suite) => theirs.some((other) => other.child === suite.child && other.file === suite.file);
  return [...own.filter((suite) => !isTheirs(suite)), ...theirs];
}

/** The processes of a server, or its connection. */
export const processes = (suite) => suite.children ?? [];

/** What its processes take, in KiB; `null` where nobody knows. */
export function memoryOf(suite) {
  const known = processes(suite).map((child) => child.memoryKb).filter((kib) => typeof kib === "number");
  return known.length ? sum(known) : null;
}

export function problems(status) {
  const theirs = (status.workspaces ?? []).filter(Boolean).flatMap((workspace) => workspace.problems ?? []);
  return [...new Set([...(status.problems ?? []), ...theirs])];
}

/** The open sessions. Those of commands that have ended stay for some seconds. */
export const editors = (status) =>
  (status.sessions ?? []).filter(({ client, inFlight }) => inFlight > 0 || !["switchboard call", "switchboard start"].includes(client));

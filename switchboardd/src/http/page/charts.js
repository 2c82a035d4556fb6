// Small charts of the last five minutes: one bar a step, what failed in another colour.

import { mark, svg } from "./dom.js";

/**
 * A chart that is redrawn in place. `points`: `{ count, errors }`, the oldest first, empty steps among them.
 * `words` is what it says to those who do not see it.
 */
export function bars(width, height) {
  const calls = svg("path", { class: "calls" });
  const failed = svg("path", { class: "failed" });
  const ground = svg("path", { class: "ground", d: `M0 ${height - 0.5}H${width}` });
  const node = svg(
    "svg",
    { class: "bars", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": "" },
    ground,
    calls,
    failed,
  );
  const update = (points, words) => {
    const most = Math.max(1, ...points.map((point) => point.count));
    const step = width / Math.max(1, points.length);
    const thick = step * 0.72;
    // Of few calls the least is still to be seen.
    const tall = (number) => (number ? Math.max(1.5, ((height - 1) * number) / most) : 0);
    const draw = (numbers, from) =>
      numbers
        .map((number, at) => {
          if (!number) return "";
          const x = (at * step + (step - thick) / 2).toFixed(2);
          const foot = (height - (from ? from[at] : 0)).toFixed(2);
          return `M${x} ${foot}v-${number.toFixed(2)}h${thick.toFixed(2)}v${number.toFixed(2)}z`;
        })
        .join("");
    const bad = points.map((point) => Math.min(tall(point.errors), tall(point.count)));
    const good = points.map((point, at) => Math.max(0, tall(point.count) - bad[at]));
    mark(calls, "d", draw(good, bad));
    mark(failed, "d", draw(bad));
    mark(node, "aria-label", words);
  };
  return { node, update };
}

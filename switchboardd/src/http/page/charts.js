// Small charts of the last five minutes: one bar a step, what failed or was refused in other colours.

import { mark, svg } from "./dom.js";

/**
 * A chart that is redrawn in place. `points`: `{ count, errors, refused }`, the oldest first, empty steps among them.
 * `words` is what it says to those who do not see it.
 */
export function bars(width, height) {
  const calls = svg("path", { class: "calls" });
  const failed = svg("path", { class: "failed" });
  const refused = svg("path", { class: "refused" });
  const pointer = svg("rect", { class: "pointer", y: 0, height });
  const ground = svg("path", { class: "ground", d: `M0 ${height - 0.5}H${width}` });
  const node = svg(
    "svg",
    { class: "bars", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": "" },
    pointer,
    ground,
    calls,
    refused,
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
    const no = points.map((point, at) => Math.min(tall(point.refused), tall(point.count) - bad[at]));
    const good = points.map((point, at) => Math.max(0, tall(point.count) - bad[at] - no[at]));
    mark(calls, "d", draw(good, bad.map((foot, at) => foot + no[at])));
    mark(refused, "d", draw(no, bad));
    mark(failed, "d", draw(bad));
    mark(pointer, "width", step.toFixed(2));
    mark(node, "aria-label", words);
  };
  /** Marks one step; `null` none. */
  const point = (at) => {
    mark(pointer, "data-on", at === null ? null : "");
    if (at !== null) mark(pointer, "x", (at * Number(pointer.getAttribute("width"))).toFixed(2));
  };
  return { node, update, point };
}

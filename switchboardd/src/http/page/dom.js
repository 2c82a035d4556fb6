// Nodes, made and kept. Text of others goes in as text, never as markup.

import { visible } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";

/** A node with attributes and children; strings become text. */
export function el(tag, attributes = {}, ...children) {
  return dress(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return dress(document.createElementNS(SVG, tag), attributes, children);
}

function dress(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

export const by = (id) => document.getElementById(id);

/** Writes only what differs, so that a selection or a screen reader is not disturbed. */
export function say(node, words) {
  if (node.textContent !== words) node.textContent = words;
}

/** The same; what stands in backticks is set as code. */
export function explain(node, words) {
  if (node.said === words) return;
  node.said = words;
  const parts = words.split(/`([^`]+)`/);
  node.replaceChildren(...parts.map((part, at) => (at % 2 ? el("code", {}, part) : part)));
}

/** The last lines of a program as one text. The last one, where exceptions are named, is marked if it failed. */
export function output() {
  const node = el("pre", { class: "output", tabindex: "0", role: "group", "aria-label": "Output of the server" });
  return { node, update: (lines, failed) => fill(node, lines, failed) };
}

function fill(node, lines, failed) {
  const text = lines.map((line) => visible(line, 1000));
  const key = `${failed} ${text.join("\n")}`;
  if (node.filled === key) return;
  node.filled = key;
  let last = text.length - 1;
  while (last > 0 && !text[last].trim()) last--;
  const before = text.slice(0, last).map((line) => `${line}\n`).join("");
  if (failed && text.length) node.replaceChildren(before, el("strong", {}, text[last]));
  else node.replaceChildren(text.join("\n"));
}

/** An error message without what the server wrote. */
export const reason = (message) => message.replace(/(?:; )?last stderr: `[^]*`/, "");

/** An error message; what a server wrote in it is shown as one text. */
export function failure(node, message) {
  if (node.said === message) return;
  node.said = message;
  // The tool stands in the title already.
  const text = message.replace(/ \((?:sub)?tool `[^`]*`\)/g, "");
  const [, head, wrote, tail] = /^([^]*?)(?:; )?last stderr: `([^]*)`([^`]*)$/.exec(text) ?? [null, text, "", ""];
  const words = el("span");
  explain(words, visible(head + tail, 400));
  node.replaceChildren(words);
  if (!wrote) return;
  const lines = el("pre", { class: "output" });
  fill(lines, wrote.split("\n").slice(-8), true);
  node.append(lines);
}

/** A command line, with a button that copies it. */
export function copyable(line) {
  const code = el("code", {}, line);
  const button = el("button", { type: "button", class: "copy", "aria-label": `Copy ${line}` }, "Copy");
  const node = el("span", { class: "line" }, code, button);
  node.update = (line) => {
    say(code, line);
    mark(button, "aria-label", `Copy ${line}`);
  };
  button.addEventListener("click", async () => {
    const worked = await navigator.clipboard.writeText(code.textContent).then(() => true, () => false);
    say(button, worked ? "Copied" : "Not copied");
    setTimeout(() => say(button, "Copy"), 1500);
  });
  return node;
}

export function mark(node, name, value) {
  if (value === null || value === undefined) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else if (node.getAttribute(name) !== String(value)) {
    node.setAttribute(name, value);
  }
}

export function show(node, visible) {
  if (node.hidden === visible) node.hidden = !visible;
}

/**
 * Keeps the children of `parent` in step with `items`: a node stays as long as its key does, so focus, what is folded
 * open and what is selected stay too. `make` gives `{ node, update(item) }`. Nodes that are not ours are left alone.
 */
export function keep(parent, items, keyOf, make) {
  const kept = (parent.kept ??= new Map());
  const wanted = new Set();
  let at = null;
  for (const item of items) {
    let key = keyOf(item);
    while (wanted.has(key)) key += "\u0000";
    wanted.add(key);
    let row = kept.get(key);
    if (!row) kept.set(key, (row = make(item)));
    row.update(item);
    const next = at ? at.nextSibling : first(parent, kept);
    if (row.node !== next) parent.insertBefore(row.node, next);
    at = row.node;
  }
  for (const [key, row] of kept) {
    if (!wanted.has(key)) {
      row.node.remove();
      kept.delete(key);
    }
  }
}

function first(parent, kept) {
  const ours = new Set([...kept.values()].map((row) => row.node));
  return [...parent.childNodes].find((node) => ours.has(node)) ?? null;
}

const ageing = new Set();

/** A node whose words grow older by themselves; `words` makes them from milliseconds. */
export function age(node, milliseconds, words) {
  const born = performance.now() - milliseconds;
  // Told again it is the same to a second or so; it should not jump.
  if (node.born === undefined || Math.abs(node.born - born) > 1500) node.born = born;
  node.words = words;
  ageing.add(node);
  say(node, words(Math.max(0, performance.now() - node.born)));
}

export function growOlder() {
  for (const node of ageing) {
    if (!node.isConnected) ageing.delete(node);
    else say(node, node.words(Math.max(0, performance.now() - node.born)));
  }
}

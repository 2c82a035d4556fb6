// Nodes, made and kept. Text of others goes in as text, never as markup.

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

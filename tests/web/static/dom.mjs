/* As much of a document as morph.js touches: elements, texts, attributes and a few selectors. */

class Node {
  constructor(nodeType, nodeName) {
    Object.assign(this, { nodeType, nodeName, parentNode: null, childNodes: [], moves: 0 });
  }

  get firstChild() { return this.childNodes[0] ?? null; }
  get nextSibling() {
    const row = this.parentNode?.childNodes ?? [];
    return row[row.indexOf(this) + 1] ?? null;
  }
  get isConnected() { return this.parentNode !== null; }
  get textContent() { return this.nodeType === 3 ? this.nodeValue : this.childNodes.map((each) => each.textContent).join(""); }

  removeChild(child) {
    const at = this.childNodes.indexOf(child);
    if (at < 0) throw new Error("that is no child of this");
    this.childNodes.splice(at, 1);
    child.parentNode = null;
    return child;
  }

  insertBefore(child, next) {
    if (child.parentNode) {
      child.parentNode.removeChild(child);
      child.moves += 1;
    }
    const at = next === null ? this.childNodes.length : this.childNodes.indexOf(next);
    if (at < 0) throw new Error("the next is no child of this");
    this.childNodes.splice(at, 0, child);
    child.parentNode = this;
    return child;
  }
}

class Element extends Node {
  constructor(name) {
    super(1, name.toUpperCase());
    this.named = new Map();
    this.writes = 0;
  }

  get id() { return this.named.get("id") ?? ""; }
  get attributes() { return [...this.named].map(([name, value]) => ({ name, value })); }
  getAttribute(name) { return this.named.get(name) ?? null; }
  hasAttribute(name) { return this.named.has(name); }
  setAttribute(name, value) { this.writes += 1; this.named.set(name, String(value)); }
  removeAttribute(name) { this.writes += 1; this.named.delete(name); }

  * all() {
    for (const each of this.childNodes) {
      if (each.nodeType !== 1) continue;
      yield each;
      yield* each.all();
    }
  }

  /* `name`, `name[attribute]` or `name[attribute=value]`. */
  querySelectorAll(selector) {
    const [, name, attribute, value] = /^(\w+)(?:\[(\w+)(?:=(\w+))?\])?$/.exec(selector);
    return [...this.all()].filter((each) => each.nodeName === name.toUpperCase()
      && (!attribute || (value ? each.getAttribute(attribute) === value : each.hasAttribute(attribute))));
  }
  querySelector(selector) { return this.querySelectorAll(selector)[0] ?? null; }
}

/* An element: `h("a", {href: "/"}, "text", h("b"))`. */
export function h(name, attributes = {}, ...children) {
  const element = new Element(name);
  for (const [key, value] of Object.entries(attributes)) element.named.set(key, String(value));
  for (const each of children) {
    if (typeof each === "string") {
      const text = new Node(3, "#text");
      text.nodeValue = each;
      element.insertBefore(text, null);
    } else element.insertBefore(each, null);
  }
  return element;
}

/* The element as HTML, for comparing. */
export function html(node) {
  if (node.nodeType === 3) return node.nodeValue;
  const words = [...node.named].sort().map(([key, value]) => ` ${key}="${value}"`).join("");
  return `<${node.nodeName}${words}>${node.childNodes.map(html).join("")}</${node.nodeName}>`;
}

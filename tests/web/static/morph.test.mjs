import assert from "node:assert/strict";
import test from "node:test";
import { keyOf, morph } from "../../../surfaces/web/static/morph.js";
import { h, html } from "./dom.mjs";

const row = (id, ...cells) => h("tr", {}, h("td", {}, h("a", { href: `/work/issue/${id}` }, id)), ...cells.map((each) => h("td", {}, each)));
const body = (...rows) => h("tbody", {}, ...rows);

test("equal pages are not touched", () => {
  const make = () => h("main", {}, h("h1", {}, "Now"), h("div", { class: "scroll" }, h("table", {}, body(row("a", "1"), row("b", "2")))));
  const shown = make();
  const before = [...shown.all()];
  morph(shown, make());
  assert.deepEqual([...shown.all()], before);
  assert.ok(before.every((each) => each.writes === 0 && each.moves === 0));
});

test("a row stays the row of its work when others come and go", () => {
  const shown = body(row("a", "1"), row("b", "2"), row("c", "3"));
  const [, b, c] = shown.childNodes;
  morph(shown, body(row("x", "0"), row("b", "9"), row("c", "3"), row("d", "4")));
  assert.equal(shown.childNodes[1], b);
  assert.equal(shown.childNodes[2], c);
  assert.equal(b.moves + c.moves, 0);
  assert.equal(shown.textContent, "x0b9c3d4");
});

test("rows that change places are moved, not rewritten", () => {
  const shown = body(row("a"), row("b"), row("c"));
  const [a, b, c] = shown.childNodes;
  morph(shown, body(row("c"), row("a"), row("b")));
  assert.deepEqual(shown.childNodes, [c, a, b]);
});

test("a button never becomes the button of other work", () => {
  const form = (verb, work) => h("form", { action: `/act/${verb}` }, h("input", { type: "hidden", name: "csrf", value: "w" }), h("input", { type: "hidden", name: "work", value: work }), h("button", {}, verb));
  const shown = h("td", {}, form("cancel", "issue/a"), form("pause", "issue/a"));
  const [cancel, pause] = shown.childNodes;
  morph(shown, h("td", {}, form("pause", "issue/a")));
  assert.deepEqual(shown.childNodes, [pause]);
  morph(shown, h("td", {}, form("pause", "issue/b")));
  assert.equal(pause.parentNode, null);
  assert.equal(cancel.parentNode, null);
  assert.match(html(shown), /issue\/b/);
});

test("two rows of one work are both shown", () => {
  const shown = body(row("a", "1"), row("a", "2"));
  morph(shown, body(row("a", "3"), row("a", "4"), row("a", "5")));
  assert.equal(shown.textContent, "a3a4a5");
  morph(shown, body(row("a", "6")));
  assert.equal(shown.textContent, "a6");
});

test("what a script owns or added stays as it is", () => {
  const shown = h("main", {},
    h("p", { "data-script": "" }, "trouble"),
    h("figure", { id: "rate-box", "data-keep": "hidden" }, h("canvas", { id: "rate", width: "1", "data-own": "" }), h("figcaption", {}, "old"), h("p", { id: "said", "data-script": "" }, "9")));
  const canvas = shown.childNodes[1].childNodes[0];
  morph(shown, h("main", {}, h("p", { class: "told" }, "paused"), h("figure", { id: "rate-box", hidden: "" }, h("canvas", { id: "rate", width: "960" }), h("figcaption", {}, "new"))));
  assert.equal(html(shown), '<MAIN><P data-script="">trouble</P><P class="told">paused</P><FIGURE data-keep="hidden" id="rate-box">'
    + '<CANVAS data-own="" id="rate" width="1"></CANVAS><FIGCAPTION>new</FIGCAPTION><P data-script="" id="said">9</P></FIGURE></MAIN>');
  assert.equal(shown.childNodes[2].childNodes[0], canvas);
});

test("details that a person has opened stay open, and closed ones closed", () => {
  const shown = h("main", {}, h("details", { open: "" }, h("summary", {}, "more"), "1"), h("details", {}, h("summary", {}, "less"), "1"));
  morph(shown, h("main", {}, h("details", {}, h("summary", {}, "more"), "2"), h("details", { open: "" }, h("summary", {}, "less"), "2")));
  assert.equal(html(shown), '<MAIN><DETAILS open=""><SUMMARY>more</SUMMARY>2</DETAILS><DETAILS><SUMMARY>less</SUMMARY>2</DETAILS></MAIN>');
});

test("a moment keeps its words, and another moment gets its own", () => {
  const shown = h("p", {}, h("time", { datetime: "1", title: "one" }, "3 s ago"));
  morph(shown, h("p", {}, h("time", { datetime: "1" }, "one")));
  assert.equal(shown.textContent, "3 s ago");
  morph(shown, h("p", {}, h("time", { datetime: "2" }, "two")));
  assert.equal(html(shown), '<P><TIME datetime="2">two</TIME></P>');
});

test("sections are found by their title, whatever comes between them", () => {
  const part = (title, text) => h("section", {}, h("h2", {}, title), text);
  const shown = h("main", {}, part("Tree", "1"), part("Budgets", "1"));
  const [tree, budgets] = shown.childNodes;
  morph(shown, h("main", {}, h("div", { class: "told" }, "paused"), part("Tree", "2"), part("Resting", "2"), part("Budgets", "2")));
  assert.equal(shown.childNodes[1], tree);
  assert.equal(shown.childNodes[3], budgets);
  assert.equal(shown.textContent, "pausedTree2Resting2Budgets2");
});

test("a key belongs to one kind of element only", () => {
  const shown = h("main", {}, h("div", { id: "x" }, "old"));
  morph(shown, h("main", {}, h("p", { id: "x" }, "new")));
  assert.equal(html(shown), '<MAIN><P id="x">new</P></MAIN>');
  assert.equal(keyOf(h("p")), null);
});

test("any page becomes any other page", () => {
  let seed = 17;
  const random = (below) => { seed = (seed * 1103515245 + 12345) % 2147483648; return Math.floor((seed / 2147483648) * below); };
  const grow = (depth) => {
    const kinds = ["p", "div", "tr", "section", "details", "span", "form"];
    const name = kinds[random(kinds.length)];
    const attributes = random(4) === 0 ? { id: `i${random(6)}` } : random(2) ? { class: `c${random(3)}` } : {};
    if (name === "form") attributes.action = `/act/${random(3)}`;
    const children = depth > 3 ? [] : Array.from({ length: random(6) }, () => (random(3) === 0 ? `t${random(9)}` : grow(depth + 1)));
    if (name === "section") children.unshift(h("h2", {}, `s${random(3)}`));
    if (name === "tr" && random(2)) children.unshift(h("a", { href: `/${random(5)}` }, "x"));
    return h(name, attributes, ...children);
  };
  const page = () => h("main", {}, ...Array.from({ length: 6 }, () => grow(0)));
  const shown = page();
  for (let turn = 0; turn < 500; turn += 1) {
    const before = seed;
    const wanted = page();
    const after = seed;
    seed = before;
    const same = page();
    assert.equal(seed, after);
    morph(shown, same);
    // Whether details are open is the person's; no page here says so.
    assert.equal(html(shown), html(wanted), `turn ${turn}, seed ${before}`);
  }
});

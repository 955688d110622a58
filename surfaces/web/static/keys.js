/* Keys for those who would rather not reach for a mouse; `?` shows them. */

import { made } from "./say.js";

const AFTER_G_MS = 1_500;
let sinceG = -AFTER_G_MS;
let help = null;

export function start() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented) return;
    if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
    if (pressed(event.key)) event.preventDefault();
  });
}

function pressed(key) {
  const isAfterG = performance.now() - sinceG < AFTER_G_MS;
  sinceG = -AFTER_G_MS;
  if (isAfterG) return go(key);
  switch (key) {
    case "g":
      sinceG = performance.now();
      return true;
    case "/": return search();
    case "j": return move(1);
    case "k": return move(-1);
    case "Enter": return open();
    case "?": return show();
    default: return false;
  }
}

function go(key) {
  const link = /^[a-z]$/.test(key) && document.querySelector(`nav a[data-key="${key}"]`);
  link?.click?.();
  return Boolean(link);
}

function search() {
  const field = document.querySelector(
    "main input[type=search], main .filters :is(input:not([type=hidden]), select), main form[method=get] input:not([type=hidden])",
  );
  field?.focus();
  field?.select?.();
  return field !== null;
}

function move(step) {
  const rows = mainRows();
  if (rows.length === 0) return false;
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const next = at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + step));
  const row = rows[next];
  row.dataset.keep = "tabindex";
  row.tabIndex = -1;
  row.focus({ preventScroll: true });
  row.scrollIntoView({ block: "nearest" });
  return true;
}

/* The rows of the table that has the focus, else of the first. */
function mainRows() {
  const focused = document.activeElement?.closest("main table");
  const table = focused ?? document.querySelector("main table:has(tbody tr)");
  return table ? [...table.querySelectorAll("tbody tr")] : [];
}

function open() {
  const row = document.activeElement;
  const link = row?.matches("tr") ? row.querySelector("a[href]") : null;
  link?.click();
  return link !== null;
}

function show() {
  help ??= makeHelp();
  help.showModal();
  return true;
}

function makeHelp() {
  const box = made("dialog", { "aria-labelledby": "keys" });
  const list = made("dl");
  const line = (keys, text) => {
    const term = made("dt");
    for (const key of keys) term.append(made("kbd", {}, key), " ");
    list.append(term, made("dd", {}, text));
  };
  for (const link of document.querySelectorAll("nav a[data-key]")) line(["g", link.dataset.key], link.textContent);
  line(["/"], "to the first filter");
  line(["j", "k"], "to the next row, to the one before");
  line(["Enter"], "open the row");
  line(["Esc"], "close what is open");
  line(["?"], "this list");
  const form = made("form", { method: "dialog", class: "bar" });
  form.append(made("button", { autofocus: "" }, "Close"));
  box.append(made("h2", { id: "keys" }, "Keys"), list, form);
  return document.body.appendChild(box);
}

function isTyping(target) {
  return target.matches?.("input, textarea, select") || target.isContentEditable;
}

/* Tells the person something: in the corner, and to those who listen instead of looking. */

const STAYS_MS = 10_000;
let box = null;
let over = 0;

/* Told until `STAYS_MS` are over, or, if it is bad, until it is put away. */
export function say(text, isBad = false, link = null) {
  box ??= document.body.appendChild(made("div", { id: "said", role: "status", "aria-live": "polite" }));
  const close = made("button", { type: "button", class: "quiet", "aria-label": "Put this message away" }, "×");
  const words = made("span", {}, text);
  if (link) words.append(" ", made("a", { href: link.href }, link.text));
  const told = made("div", { class: isBad ? "told bad" : "told" });
  close.addEventListener("click", () => told.remove());
  told.append(words, close);
  box.replaceChildren(told);
  clearTimeout(over);
  if (!isBad) over = setTimeout(() => told.remove(), STAYS_MS);
}

/* An element with these attributes and this text, which is never read as HTML. */
export function made(name, attributes = {}, text = "") {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text) element.textContent = text;
  return element;
}

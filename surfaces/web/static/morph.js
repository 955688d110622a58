/* Turns the page that is shown into the page that was fetched, and leaves alone what did not change.

   An element is found again by its key, else by its tag and place. A row of a table has the key of
   what it is about: a button that is about to be pressed never becomes the button of another row.

   data-own       a script owns this element and all within: nothing in it is changed
   data-script    a script added this element: it stays, and is matched with nothing
   data-keep      the attributes, by name, that a script owns
*/

const ELEMENT = 1;
const LEFT_TO_PERSON = { DETAILS: "open", DIALOG: "open" };

/* Make the inside of `shown` like the inside of `wanted`, which is used up. */
export function morph(shown, wanted) {
  const byKey = keyed(shown);
  const comes = keyed(wanted);
  let here = shown.firstChild;
  for (const next of [...wanted.childNodes]) {
    here = passed(here, comes);
    const key = next.understudyKey;
    const match = key ? byKey.get(key) : unkeyed(here, next);
    if (match && match.nodeName === next.nodeName) {
      if (match === here) here = here.nextSibling;
      else shown.insertBefore(match, here);
      become(match, next);
      match.understudyUsed = true;
    } else {
      next.understudyUsed = true;
      shown.insertBefore(next, here);
    }
  }
  for (const each of [...shown.childNodes]) {
    if (!each.understudyUsed && !isAdded(each)) shown.removeChild(each);
    each.understudyUsed = undefined;
    each.understudyKey = undefined;
  }
}

/* Drop what stands here and will not come again, so that what follows needs no move. */
function passed(here, comes) {
  while (here) {
    const after = here.nextSibling;
    if (isAdded(here) || here.understudyUsed) here = after;
    else if (here.understudyKey && !comes.has(here.understudyKey)) {
      here.parentNode.removeChild(here);
      here = after;
    } else return here;
  }
  return null;
}

/* The nearest that has no key and is of this kind. */
function unkeyed(here, next) {
  for (let each = here, steps = 0; each && steps < 12; each = each.nextSibling, steps += 1) {
    if (each.nodeName === next.nodeName && !each.understudyKey && !each.understudyUsed && !isAdded(each)) return each;
  }
  return null;
}

function become(shown, wanted) {
  if (shown.nodeType !== ELEMENT) {
    if (shown.nodeValue !== wanted.nodeValue) shown.nodeValue = wanted.nodeValue;
    return;
  }
  if (shown.hasAttribute("data-own")) return;
  const isSameTime = shown.nodeName === "TIME" && shown.getAttribute("datetime") === wanted.getAttribute("datetime");
  if (isSameTime) return; // its text is how long ago that was
  attributes(shown, wanted);
  morph(shown, wanted);
}

/* A field that a person has changed keeps its value: the attribute is only its default. */
function attributes(shown, wanted) {
  const kept = new Set((shown.getAttribute("data-keep") ?? "").split(" "));
  kept.add("data-keep").add(LEFT_TO_PERSON[shown.nodeName]);
  for (const { name, value } of [...wanted.attributes]) {
    if (!kept.has(name) && shown.getAttribute(name) !== value) shown.setAttribute(name, value);
  }
  for (const { name } of [...shown.attributes]) {
    if (!kept.has(name) && !wanted.hasAttribute(name)) shown.removeAttribute(name);
  }
}

/* The children that have a key; the second of one key has another. */
function keyed(parent) {
  const found = new Map();
  for (const each of parent.childNodes) {
    const key = keyOf(each);
    if (!key) continue;
    let own = key;
    for (let more = 2; found.has(own); more += 1) own = `${key} ${more}`;
    each.understudyKey = own;
    found.set(own, each);
  }
  return found;
}

export function keyOf(node) {
  if (node.nodeType !== ELEMENT || isAdded(node)) return null;
  if (node.id) return `#${node.id}`;
  switch (node.nodeName) {
    case "TR": return aboutRow(node);
    case "FORM": return aboutForm(node);
    case "SECTION": return about(node, "h2");
    case "DETAILS": return about(node, "summary");
    default: return null;
  }
}

function aboutRow(row) {
  const link = row.querySelector("a[href]");
  if (link) return `to ${link.getAttribute("href")}`;
  const form = row.querySelector("form");
  return form && aboutForm(form);
}

function aboutForm(form) {
  const fields = [...form.querySelectorAll("input[type=hidden]")]
    .filter((each) => !["csrf", "back"].includes(each.getAttribute("name")))
    .map((each) => `${each.getAttribute("name")}=${each.getAttribute("value")}`);
  return `form ${form.getAttribute("action")} ${fields.join(" ")}`;
}

function about(node, title) {
  const found = node.querySelector(title);
  return found && `${title} ${found.textContent}`;
}

function isAdded(node) {
  return node.nodeType === ELEMENT && node.hasAttribute("data-script");
}

/* Copies: `data-copy` holds the text, or is empty for the element's own; `data-copy-url` says where it is. */

import { made, say } from "./say.js";

const COPIED = "[data-copy], [data-copy-url]";

export function start() {
  document.addEventListener("click", async (event) => {
    const pressed = event.target.closest?.("button");
    const source = pressed?.matches(COPIED) ? pressed : pressed?.matches(".copy") ? pressed.previousElementSibling : null;
    if (!source?.matches(COPIED)) return;
    event.preventDefault();
    try {
      await put(await textOf(source));
      say("Copied.");
    } catch (error) {
      say(`Nothing was copied: ${error.message}`, true);
    }
  });
}

/* What is to be copied and is no button gets one. */
export function attach() {
  for (const each of document.querySelectorAll(`main :is(${COPIED}):not(button)`)) {
    if (each.nextElementSibling?.matches(".copy")) continue;
    const about = each.getAttribute("aria-label") ?? each.dataset.copyName ?? "this";
    each.after(made("button", { type: "button", class: "quiet copy", "data-script": "", "aria-label": `Copy ${about}` }, "Copy"));
  }
}

async function textOf(source) {
  const url = source.dataset.copyUrl;
  if (!url) return source.dataset.copy || source.textContent;
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`the answer was ${answer.status}`);
  return answer.text();
}

/* Where the page may not write to the clipboard, an invisible field is selected and copied. */
async function put(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = document.body.appendChild(made("textarea", { class: "unseen", "aria-hidden": "true" }));
  field.value = text;
  field.select();
  const isDone = document.execCommand("copy");
  field.remove();
  if (!isDone) throw new Error("the browser does not allow it");
  return undefined;
}

/* Sends what a person decides: asks first where that is wanted, then tells what came of it.

   A form is sent once. Where no answer comes, the person is told so and looks for themselves: it may
   have been done. Without scripts the same forms are sent by the browser.
*/

import { made, say } from "./say.js";

const PATIENCE_MS = 30_000;
const REASON_LENGTH_MAX = 500;
const sending = new WeakSet();
let dialog = null;

export function start(refresh, signedOut) {
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.matches("form.action")) return;
    event.preventDefault();
    if (sending.has(form)) return;
    const button = event.submitter ?? form.querySelector("button");
    const asked = button?.dataset.asks;
    if (asked) ask(asked, button, (reason) => send(form, button, reason, refresh, signedOut));
    else send(form, button, "", refresh, signedOut);
  });
}

function ask(text, button, decided) {
  dialog ??= makeDialog();
  dialog.querySelector("h2").textContent = text;
  const yes = dialog.querySelector("button[value=yes]");
  yes.textContent = button.textContent;
  yes.className = button.classList.contains("danger") ? "danger" : "main";
  const reason = dialog.querySelector("input");
  if (dialog.dataset.text !== text) reason.value = "";
  dialog.dataset.text = text;
  dialog.returnValue = "";
  dialog.onclose = () => {
    if (dialog.returnValue === "yes") decided(reason.value.trim());
    if (button.isConnected) button.focus({ preventScroll: true });
  };
  dialog.showModal();
}

function makeDialog() {
  const box = made("dialog", { "aria-labelledby": "asks" });
  const form = made("form", { method: "dialog" });
  const label = made("label", {}, "Why (may be left empty)");
  label.append(made("input", { maxlength: REASON_LENGTH_MAX, autocomplete: "off", autofocus: "" }));
  const bar = made("div", { class: "bar" });
  // The first button is what Enter presses: in the field that is the person's decision.
  bar.append(made("button", { value: "yes" }, "Yes"), made("button", { value: "", type: "button" }, "Leave it"));
  bar.lastChild.addEventListener("click", () => box.close(""));
  form.append(made("h2", { id: "asks" }), label, bar);
  box.append(form);
  return document.body.appendChild(box);
}

async function send(form, button, reason, refresh, signedOut) {
  const body = new URLSearchParams(new FormData(form, button?.name ? button : undefined));
  if (reason) body.set("reason", reason);
  sending.add(form);
  button?.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(form.action, {
      method: "POST",
      body,
      headers: { accept: "application/json" },
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
    await tell(answer, refresh, signedOut);
  } catch {
    say("No answer came. It may have been done or not: look before you do it again.", true);
  } finally {
    sending.delete(form);
    button?.removeAttribute("aria-busy");
  }
}

async function tell(answer, refresh, signedOut) {
  if (answer.redirected) {
    location.assign(answer.url);
    return;
  }
  const isJson = (answer.headers.get("content-type") ?? "").includes("json");
  const said = isJson ? await answer.json() : {};
  if (answer.status === 401) {
    say("You are signed out; nothing was done.", true);
    signedOut();
    return;
  }
  if (answer.ok && dialog) delete dialog.dataset.text; // the reason was used
  say(said.text ?? said.error ?? `The answer was ${answer.status}.`, !answer.ok || said.refused === true);
  await refresh();
}

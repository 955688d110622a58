/* Keeps `#main` fresh: fetches this page's own inside when something has changed, and morphs it.

   R1  One fetch at a time, at most one a second, and never more than a third of the time.
   R2  Nothing moves under a person's hands: not while they type, select, confirm, or aim at a button.
   R3  However much happens, what waits is one word: there is something new.

   The answer is HTML of our own server, from which every text came escaped. It is parsed into a
   document of its own, where no script runs; the page's policy forbids inline scripts besides.
*/

import { morph } from "./morph.js";
import { made } from "./say.js";

const EACH_MS = 1_000;
const TRIPS = 3;
const PATIENCE_MS = 30_000;
const TYPED_MS = 5_000;
const AIMED_MS = 4_000;
const SCROLLED = ".scroll, pre";

/* How long to wait for the next fetch, after one that took so long. */
export function restMs(tripMs) {
  return Math.max(EACH_MS, TRIPS * tripMs);
}

export class Refresh {
  constructor(main, changed, signedOut) {
    this.main = main;
    this.changed = changed;
    this.signedOut = signedOut;
    this.isNew = false;
    this.isBusy = false;
    this.isOver = false;
    this.timer = 0;
    this.notBefore = 0;
    this.typedAt = -TYPED_MS;
    this.aimedAt = -AIMED_MS;
    this.isPressed = false;
  }

  start() {
    this.main.addEventListener("input", () => { this.typedAt = performance.now(); });
    this.main.addEventListener("pointermove", () => { this.aimedAt = performance.now(); }, { passive: true });
    this.main.addEventListener("pointerdown", () => { this.isPressed = true; });
    for (const over of ["pointerup", "pointercancel"]) {
      addEventListener(over, () => setTimeout(() => { this.isPressed = false; }));
    }
    document.addEventListener("visibilitychange", () => this.plan());
  }

  /* Something has changed. */
  wanted() {
    this.isNew = true;
    this.plan();
  }

  /* The person did something: show at once what came of it. */
  now() {
    this.isNew = true;
    this.notBefore = 0;
    clearTimeout(this.timer);
    this.timer = 0;
    return this.fetch();
  }

  plan() {
    if (!this.isNew || this.isBusy || this.isOver || this.timer || document.hidden) return;
    const wait = Math.max(0, this.notBefore - performance.now());
    this.timer = setTimeout(() => {
      this.timer = 0;
      if (document.hidden) return;
      if (this.isHeld()) this.holdBack();
      else this.fetch();
    }, wait);
  }

  holdBack() {
    this.notBefore = performance.now() + EACH_MS;
    this.plan();
  }

  isHeld() {
    const at = performance.now();
    const active = document.activeElement;
    const isField = this.main.contains(active) && active.matches("input, textarea, select");
    if (isField && (at - this.typedAt < TYPED_MS || isChanged(active))) return true;
    if (document.querySelector("dialog[open]")) return true;
    const selection = getSelection();
    if (!selection.isCollapsed && this.main.contains(selection.anchorNode)) return true;
    return this.isPressed || (at - this.aimedAt < AIMED_MS && this.main.querySelector("form button:hover") !== null);
  }

  async fetch() {
    if (this.isBusy || this.isOver) return;
    this.isBusy = true;
    this.isNew = false;
    const began = performance.now();
    try {
      const answer = await fetch(location.pathname + location.search, {
        headers: { "x-understudy-fragment": "1", accept: "text/html" },
        signal: AbortSignal.timeout(PATIENCE_MS),
      });
      await this.took(answer);
    } catch (error) {
      if (!["TypeError", "TimeoutError", "AbortError"].includes(error.name)) throw error;
      this.trouble("The console does not answer. What you see may be old; it is tried again.");
    } finally {
      this.isBusy = false;
      this.notBefore = performance.now() + restMs(performance.now() - began);
      this.plan();
    }
  }

  async took(answer) {
    const text = await answer.text();
    if (answer.status === 401) {
      this.isOver = true;
      this.trouble("You are signed out. What you see is old.");
      this.signedOut();
      return;
    }
    const isPage = (answer.headers.get("content-type") ?? "").startsWith("text/html");
    if (!isPage || answer.status >= 500) {
      this.trouble(`The authority does not answer (${answer.status}). What you see may be old; it is tried again.`);
      return;
    }
    this.trouble(null);
    if (this.isHeld()) { // they have begun to type meanwhile
      this.isNew = true;
      return;
    }
    this.show(text);
    const seq = answer.headers.get("x-understudy-seq");
    if (seq) shownSeq(this.main, seq);
  }

  show(text) {
    const wanted = new DOMParser().parseFromString(text, "text/html").body;
    const active = document.activeElement;
    const isOurs = this.main.contains(active) && active !== this.main;
    const places = [...this.main.querySelectorAll(SCROLLED)]
      .filter((each) => each.scrollTop || each.scrollLeft)
      .map((each) => [each, each.scrollTop, each.scrollLeft]);
    const range = isOurs ? rangeOf(active) : null;
    morph(this.main, wanted);
    this.changed();
    for (const [each, top, left] of places) {
      if (each.isConnected && each.scrollTop !== top) each.scrollTop = top;
      if (each.isConnected && each.scrollLeft !== left) each.scrollLeft = left;
    }
    if (isOurs && document.activeElement !== active) {
      (active.isConnected ? active : this.main).focus({ preventScroll: true });
      if (range && active.isConnected) active.setSelectionRange(...range);
    }
  }

  /* A line above the page for as long as it lasts; what is shown stays. */
  trouble(text) {
    const line = document.getElementById("trouble");
    if (line?.textContent === (text ?? "")) return;
    if (text === null) {
      line?.remove();
      return;
    }
    const told = line ?? made("p", { id: "trouble", class: "told bad", role: "status", "data-script": "" });
    told.textContent = text;
    if (!line) this.main.prepend(told);
    if (!this.isOver) this.isNew = true;
  }
}

function isChanged(field) {
  return "defaultValue" in field && field.type !== "checkbox" && field.value !== field.defaultValue;
}

function rangeOf(field) {
  try {
    return field.selectionStart == null ? null : [field.selectionStart, field.selectionEnd, field.selectionDirection];
  } catch {
    return null; // a field that has none
  }
}

function shownSeq(main, seq) {
  document.body.dataset.seq = seq;
  main.dataset.seq = seq;
  const fresh = document.getElementById("fresh");
  if (fresh) fresh.textContent = `as of row ${seq}`;
}

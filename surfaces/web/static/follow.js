/* Follows a log: fetches what was written since, and keeps the newest part of it on the page.

   F1  What is kept has a bound, in lines and in characters; the oldest go first.
   F2  A reader who has scrolled up is left where they are.
   F3  A log is text: it never becomes HTML.
*/

import { made } from "./say.js";

const LINES_MAX = 20_000;
const CHARS_MAX = 2_000_000;
const SOON_MS = 250;
const LATER_MS = 1_000;
const LATEST_MS = 15_000;
const NEAR_PX = 24;

let followed = null;

/* The page was made anew: give its log a button, once. */
export function attach() {
  const pre = document.querySelector("pre#log[data-follow]");
  if (!pre || pre.dataset.own !== undefined) return;
  pre.dataset.own = "";
  const button = made("button", { type: "button", "aria-pressed": "false", "aria-controls": "log" }, "Follow");
  const state = made("span", { role: "status", class: "dim" });
  const bar = made("div", { class: "bar", "data-script": "" });
  bar.append(button, state);
  (pre.closest(".scroll") ?? pre).before(bar);
  const log = new FollowedLog(pre, button, state);
  button.addEventListener("click", () => log.turn());
}

export class FollowedLog {
  constructor(pre, button, state) {
    this.pre = pre;
    this.button = button;
    this.state = state;
    this.next = pre.dataset.next ?? "0";
    this.decoder = new TextDecoder();
    this.lines = pre.childElementCount;
    this.chars = pre.textContent.length;
    this.last = null; // a line whose end has not come yet
    this.isOn = false;
    this.waitMs = LATER_MS;
  }

  turn() {
    this.isOn = !this.isOn;
    this.button.setAttribute("aria-pressed", String(this.isOn));
    this.state.textContent = this.isOn ? "following" : "";
    if (!this.isOn) return;
    if (followed && followed !== this && followed.isOn) followed.turn();
    followed = this;
    this.pre.scrollTop = this.pre.scrollHeight;
    this.look();
  }

  async look() {
    if (!this.isOn || !this.pre.isConnected) return;
    let waitMs = LATER_MS;
    if (!document.hidden) waitMs = await this.fetch();
    if (this.isOn) setTimeout(() => this.look(), waitMs);
  }

  /* How long to wait for the next look. */
  async fetch() {
    const url = new URL(this.pre.dataset.follow, location.href);
    url.searchParams.set("from", this.next);
    url.searchParams.set("raw", "1");
    try {
      const answer = await fetch(url, { signal: AbortSignal.timeout(LATEST_MS) });
      if (!answer.ok) return this.later(answer.status === 401 ? "signed out" : `no answer (${answer.status})`);
      const bytes = await answer.arrayBuffer();
      this.add(this.decoder.decode(bytes, { stream: true }));
      this.next = answer.headers.get("x-understudy-next") ?? this.next;
      this.waitMs = LATER_MS;
      this.state.textContent = "following";
      if (bytes.byteLength > 0) return SOON_MS;
      if (isYes(answer.headers.get("x-understudy-ended"))) {
        this.turn();
        this.state.textContent = "it has ended";
      }
      return LATER_MS;
    } catch {
      return this.later("no answer");
    }
  }

  later(text) {
    this.state.textContent = `${text}; tried again`;
    this.waitMs = Math.min(LATEST_MS, this.waitMs * 2);
    return this.waitMs;
  }

  add(text) {
    if (!text) return;
    const isAtEnd = this.pre.scrollHeight - this.pre.scrollTop - this.pre.clientHeight < NEAR_PX;
    const heightBefore = this.pre.scrollHeight;
    const wanted = text.length > CHARS_MAX ? text.slice(-CHARS_MAX) : text;
    const parts = wanted.split("\n");
    const fresh = document.createDocumentFragment();
    parts.forEach((part, place) => {
      const isWhole = place < parts.length - 1;
      if (!isWhole && part === "") return;
      if (this.last) this.last.append(part);
      else {
        this.last = fresh.appendChild(made("span", { class: "line" }, part));
        this.lines += 1;
      }
      if (isWhole) {
        this.last.append("\n");
        this.last = null;
      }
    });
    this.chars += wanted.length;
    this.pre.append(fresh);
    const dropped = this.drop();
    if (isAtEnd) this.pre.scrollTop = this.pre.scrollHeight;
    else if (dropped) this.pre.scrollTop = Math.max(0, this.pre.scrollTop - Math.max(0, heightBefore - this.pre.scrollHeight));
  }

  drop() {
    let dropped = 0;
    while ((this.lines > LINES_MAX || this.chars > CHARS_MAX) && this.pre.firstChild && this.pre.firstChild !== this.last) {
      const oldest = this.pre.firstChild;
      this.chars -= oldest.textContent.length;
      if (oldest.nodeType === 1) this.lines -= 1;
      oldest.remove();
      dropped += 1;
    }
    return dropped;
  }
}

function isYes(text) {
  return ["1", "true", "yes"].includes((text ?? "").toLowerCase());
}

/* One stream of events: says that rows were written, and whether this page hears of it.

   connecting -> live -> connecting -> ...    the browser tries again by itself, from the last row
   live -> resting                            the tab was hidden for a minute, or another needs the line
   connecting -> waiting                      no room, or no server: tried again, more and more seldom
   connecting -> signed out                   the session is over; nothing is tried any more

   A browser keeps few connections to one server, so a tab that is hidden gives its own away.
*/

import { made } from "./say.js";

const HIDDEN_MS = 60_000;
const WAIT_MS = 2_000;
const WAIT_MS_MAX = 60_000;

export class Stream {
  /* `heard(rows)` is called for every event, with `fresh`: the rows that were written just now. */
  constructor(seq, heard, greeted) {
    this.seq = seq;
    this.isOut = false;
    this.heard = heard;
    this.greeted = greeted;
    this.source = null;
    this.timer = 0;
    this.waitMs = WAIT_MS;
    this.floor = 0;
    this.others = globalThis.BroadcastChannel && new BroadcastChannel("understudy-shown");
  }

  start() {
    document.addEventListener("visibilitychange", () => this.turned());
    addEventListener("pagehide", () => this.close());
    addEventListener("pageshow", (event) => event.persisted && this.turned());
    this.others?.addEventListener("message", () => document.hidden && this.rest());
    this.turned();
  }

  turned() {
    clearTimeout(this.timer);
    if (document.hidden) {
      this.timer = setTimeout(() => this.rest(), HIDDEN_MS);
      return;
    }
    this.others?.postMessage("shown");
    if (!this.source) this.open();
  }

  rest() {
    this.close();
    if (!this.isOut) pulse("resting", "resting");
  }

  close() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }

  open() {
    if (this.isOut) return;
    this.close();
    pulse("connecting", "connecting");
    const source = new EventSource(`/events?after=${this.seq}`);
    this.source = source;
    source.addEventListener("hello", ({ data }) => this.hello(JSON.parse(data)));
    source.addEventListener("rows", ({ data }) => this.rows(JSON.parse(data)));
    source.addEventListener("error", () => {
      if (source !== this.source) return;
      pulse("connecting", "connecting");
      if (source.readyState === EventSource.CLOSED) this.ask();
    });
  }

  hello({ seq, head, atMs }) {
    this.waitMs = WAIT_MS;
    this.seq = seq;
    this.floor = head;
    pulse("live", "live");
    this.greeted(atMs);
  }

  /* What was missed is told as rows, but not as fresh: nobody knows when it was. */
  rows(event) {
    const fresh = Math.max(0, event.seq - Math.max(this.seq, this.floor));
    this.seq = event.seq;
    this.heard({ ...event, fresh, freshRefused: Math.min(event.refused, fresh) });
  }

  /* The stream was refused; an EventSource does not say why, so that is asked. */
  async ask() {
    this.close();
    const stop = new AbortController();
    let status = 0;
    let waitMs = this.waitMs;
    try {
      const answer = await fetch(`/events?after=${this.seq}`, { signal: stop.signal });
      status = answer.status;
      waitMs = Math.max(waitMs, 1000 * Number(answer.headers.get("retry-after") ?? 0));
    } catch {
      status = 0; // there is no server at the moment
    }
    stop.abort();
    if (status === 401) {
      this.out();
      return;
    }
    this.waitMs = Math.min(WAIT_MS_MAX, this.waitMs * 2);
    pulse("waiting", status === 503 ? "no room, waiting" : "no answer, waiting");
    clearTimeout(this.timer);
    this.timer = setTimeout(() => !document.hidden && this.open(), waitMs + Math.random() * 1000);
  }

  /* The session is over. */
  out() {
    this.isOut = true;
    this.close();
    pulse("out", "signed out ", made("a", { href: location.pathname + location.search }, "sign in"));
  }
}

function pulse(kind, text, link = null) {
  const shown = document.getElementById("pulse");
  if (!shown || (shown.dataset.said === text && shown.classList.contains(kind))) return;
  shown.className = `pulse ${kind}`;
  shown.dataset.said = text;
  shown.replaceChildren(document.createTextNode(text), ...(link ? [link] : []));
}

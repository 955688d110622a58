/* Draws decisions and refusals a second, over the last two minutes, on the page Now. */

import { Ring } from "./ring.js";
import { made } from "./say.js";

const SECONDS = 120;
const DRAW_MS = 500;
const SAY_MS = 10_000;
const KEPT = "understudy-rate";
const rows = new Ring(SECONDS);
const refused = new Ring(SECONDS);
const shownRows = new Float64Array(SECONDS);
const shownRefused = new Float64Array(SECONDS);
let drawnAt = 0;
let saidAt = 0;

/* Count what was written just now; on every page, so that Now has a past to show. */
export function count(fresh, freshRefused) {
  rows.add(second(), fresh);
  refused.add(second(), freshRefused);
}

export function start() {
  remember();
  addEventListener("pagehide", keep);
  addEventListener("resize", () => draw(true));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw(true));
  new MutationObserver(() => draw(true)).observe(document.documentElement, { attributeFilter: ["class"] });
  setInterval(draw, DRAW_MS);
  attach();
}

/* The page was made anew: the canvas is a script's own from here on. */
export function attach() {
  const box = document.getElementById("rate-box");
  if (!box || box.dataset.keep) return;
  box.dataset.keep = "hidden";
  box.hidden = false;
  document.getElementById("rate").dataset.own = "";
  box.append(made("p", { id: "rate-said", class: "dim", "data-script": "" }));
  draw(true);
}

function draw(isForced = false) {
  const canvas = document.getElementById("rate");
  const at = performance.now();
  if (!canvas || document.hidden || (isForced !== true && at - drawnAt < DRAW_MS - 50)) return;
  drawnAt = at;
  rows.read(second(), shownRows);
  refused.read(second(), shownRefused);
  const most = Math.max(1, ...shownRows);
  paint(canvas, most);
  if (at - saidAt > SAY_MS || saidAt === 0) {
    saidAt = at;
    say(canvas);
  }
}

function paint(canvas, most) {
  const scale = devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  if (canvas.width !== Math.round(width * scale)) canvas.width = Math.round(width * scale);
  if (canvas.height !== Math.round(height * scale)) canvas.height = Math.round(height * scale);
  const pen = canvas.getContext("2d");
  const colours = getComputedStyle(document.documentElement);
  const colour = (name) => colours.getPropertyValue(name).trim();
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  const step = width / SECONDS;
  const floor = height - 1;
  const tall = floor - 14;
  const bars = (counts, name) => {
    pen.fillStyle = colour(name);
    for (let place = 0; place < SECONDS; place += 1) {
      if (!counts[place]) continue;
      const high = Math.max(2, (counts[place] / most) * tall);
      pen.fillRect(place * step, floor - high, Math.max(1, step - 1), high);
    }
  };
  pen.fillStyle = colour("--line");
  pen.fillRect(0, floor, width, 1);
  pen.fillRect(0, floor - tall, width, 1);
  bars(shownRows, "--accent");
  bars(shownRefused, "--bad");
  pen.fillStyle = colour("--dim");
  pen.font = "11px system-ui, sans-serif";
  pen.fillText(`${most} a second`, 0, 10);
}

function say(canvas) {
  const sum = (counts) => counts.reduce((all, each) => all + each, 0);
  const now = shownRows[SECONDS - 2];
  const text = `${sum(shownRows)} decisions, ${sum(shownRefused)} of them refused; ${now} in the last second`;
  canvas.setAttribute("aria-label", `Decisions in the last two minutes: ${text}`);
  const said = document.getElementById("rate-said");
  if (said) said.textContent = text;
}

function second() {
  return Math.floor(Date.now() / 1000);
}

/* From one page to the next, in this tab. */
function keep() {
  const past = { at: second(), rows: [...rows.read(second(), shownRows)], refused: [...refused.read(second(), shownRefused)] };
  try {
    sessionStorage.setItem(KEPT, JSON.stringify(past));
  } catch {
    // there is no room, or none is given
  }
}

function remember() {
  try {
    const past = JSON.parse(sessionStorage.getItem(KEPT));
    if (!past || past.at > second()) return;
    for (let place = 0; place < SECONDS; place += 1) {
      rows.add(past.at - SECONDS + 1 + place, Number(past.rows[place]) || 0);
      refused.add(past.at - SECONDS + 1 + place, Number(past.refused[place]) || 0);
    }
  } catch {
    // what was kept is of no use
  }
}

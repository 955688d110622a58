/* Says how long ago a moment was; the moment itself is in the title. */

let skewMs = 0; // how much later it is here than on the server

/* What the server's clock says now. */
export function serverTime(atMs) {
  const found = Date.now() - atMs;
  skewMs = Math.abs(found) > 1500 ? found : 0;
}

export function start() {
  show();
  setInterval(show, 1000);
}

/* Only texts that differ are written, and nothing is measured. */
export function show() {
  if (document.hidden) return;
  const nowMs = Date.now() - skewMs;
  for (const each of document.querySelectorAll("time[datetime]:not([data-absolute])")) {
    const atMs = Date.parse(each.dateTime);
    if (Number.isNaN(atMs)) continue;
    if (!each.title) each.title = each.textContent;
    const text = ago(nowMs - atMs);
    if (each.textContent !== text) each.textContent = text;
  }
}

const UNITS = [[86_400, "d"], [3_600, "h"], [60, "min"], [1, "s"]];

/* "3 s ago", "in 2 min"; one unit is enough to judge by. */
export function ago(pastMs) {
  const seconds = Math.floor(Math.abs(pastMs) / 1000);
  if (seconds === 0) return "now";
  const [size, unit] = UNITS.find(([each]) => seconds >= each);
  const text = `${Math.floor(seconds / size)} ${unit}`;
  return pastMs >= 0 ? `${text} ago` : `in ${text}`;
}

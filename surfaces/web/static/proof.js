/* Shows how far a proof is, once a second while it runs. */

const EACH_MS = 1_000;
const PATIENCE_MS = 15_000;
const watched = new Set();

/* The page was made anew: watch what it shows. */
export function attach(ended) {
  for (const each of document.querySelectorAll("progress[data-proof]")) {
    const number = each.dataset.proof;
    if (!/^\d+$/.test(number) || watched.has(number)) continue;
    watched.add(number);
    watch(number, ended);
  }
}

async function watch(number, ended) {
  let isOver = false;
  while (!isOver && bars(number).length > 0) {
    await new Promise((done) => setTimeout(done, EACH_MS));
    if (!document.hidden) isOver = await look(number);
  }
  watched.delete(number);
  if (isOver) ended();
}

/* Whether it is over. */
async function look(number) {
  try {
    const answer = await fetch(`/prove/${number}`, { signal: AbortSignal.timeout(PATIENCE_MS) });
    if (answer.status === 401 || answer.status === 404) return true;
    if (!answer.ok) return false;
    const { rows, ofRows, endedMs } = await answer.json();
    for (const bar of bars(number)) show(bar, rows, ofRows);
    return endedMs !== null;
  } catch {
    return false; // tried again
  }
}

function show(bar, rows, ofRows) {
  if (ofRows > 0) {
    bar.max = ofRows;
    bar.value = rows;
  }
  bar.textContent = `${rows} of ${ofRows}`;
  const said = bar.parentNode.querySelector("[data-proof-said]");
  if (said) said.textContent = ofRows > 0 ? `${rows} of ${ofRows} rows` : "it begins";
}

function bars(number) {
  return document.querySelectorAll(`progress[data-proof="${number}"]`);
}

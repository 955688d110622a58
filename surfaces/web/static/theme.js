/* Light or dark: as the system says, until the person says otherwise in this browser. */

import { made } from "./say.js";

const KEPT = "understudy-theme";
const NEXT = { auto: "light", light: "dark", dark: "auto" };
const MARKS = { auto: "◐", light: "○", dark: "●" };

export function start() {
  const button = made("button", { type: "button", class: "quiet", id: "theme" });
  button.addEventListener("click", () => choose(NEXT[chosen()], button));
  document.querySelector(".top .aside")?.prepend(button);
  choose(chosen(), button);
}

function chosen() {
  try {
    const kept = localStorage.getItem(KEPT);
    return kept in NEXT ? kept : "auto";
  } catch {
    return "auto";
  }
}

function choose(theme, button) {
  document.documentElement.classList.remove("light", "dark");
  if (theme !== "auto") document.documentElement.classList.add(theme);
  button.textContent = MARKS[theme];
  button.setAttribute("aria-label", `Theme: ${theme}; change to ${NEXT[theme]}`);
  button.title = `Theme: ${theme}`;
  try {
    localStorage.setItem(KEPT, theme);
  } catch {
    // then it lasts as long as this page
  }
}

// Live pages and keys. Without this file every page works; it only does not renew itself.
"use strict";

const EVERY = 2000;
const PAGES = { o: "/", j: "/jobs", q: "/queues", w: "/workers", s: "/schedules", f: "/workflows", l: "/limits", c: "/check" };
const HELP = "/ filter\ng o overview · g j jobs · g q queues · g w workers\ng s schedules · g f workflows · g l limits · g c check\np pause · ? help";
const root = document.body.dataset.root;
let isPaused = false;
let isAway = false;
let isAfterG = false;

function showLive() {
  const live = document.querySelector(".live");
  if (!live) return;
  live.hidden = false;
  live.classList.toggle("off", isPaused || isAway);
  live.lastElementChild.textContent = isPaused ? "paused" : isAway ? "no answer" : "live";
}

// A page is left alone while somebody types into it, has opened a part of it, or has marked text.
function isInUse(main) {
  const field = document.activeElement;
  if (main.contains(field) && field.matches("input, select")) return true;
  return !document.getSelection().isCollapsed || main.querySelector("details[open]") !== null;
}

async function renew() {
  const main = document.getElementById("main");
  if (document.hidden || isPaused || !main.querySelector(".live") || isInUse(main)) return;
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" }, signal: AbortSignal.timeout(8000) });
    isAway = !answer.ok;
    if (answer.ok) replace(main, await answer.text());
  } catch {
    isAway = true;
  }
  document.body.classList.toggle("stale", isAway);
  showLive();
}

function replace(main, html) {
  const next = new DOMParser().parseFromString(html, "text/html").getElementById("main");
  if (!next || isPaused || isInUse(main)) return;
  const focused = [...main.querySelectorAll("a, button")].indexOf(document.activeElement);
  main.replaceWith(next);
  if (focused >= 0) next.querySelectorAll("a, button")[focused]?.focus({ preventScroll: true });
}

function areKeysOn() {
  return localStorage.getItem("holdfast.keys") !== "off";
}

function toggleHelp() {
  const shown = document.querySelector(".help");
  if (shown) return shown.remove();
  const help = document.createElement("div");
  help.className = "help panel";
  help.setAttribute("role", "dialog");
  help.setAttribute("aria-label", "Keys");
  const choice = document.createElement("button");
  choice.className = "btn sm";
  choice.textContent = areKeysOn() ? "Switch keys off" : "Switch keys on";
  choice.addEventListener("click", () => {
    localStorage.setItem("holdfast.keys", areKeysOn() ? "off" : "on");
    help.remove();
  });
  help.append(`${HELP}\n`, choice);
  document.body.append(help);
  choice.focus();
}

function press(event) {
  if (event.key === "Escape") return document.querySelector(".help")?.remove();
  if (!areKeysOn() || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select")) return;
  const page = isAfterG ? PAGES[event.key] : undefined;
  isAfterG = event.key === "g";
  if (page) location.assign(root + page);
  else if (event.key === "?") toggleHelp();
  else if (event.key === "p") {
    isPaused = !isPaused;
    showLive();
  } else if (event.key === "/") {
    const field = document.querySelector(".filter input:not([type=hidden])");
    event.preventDefault();
    if (field) field.focus();
    else location.assign(`${root}/jobs`);
  }
}

const keys = document.createElement("button");
keys.className = "btn sm keys";
keys.textContent = "? keys";
keys.addEventListener("click", toggleHelp);
document.querySelector(".rail .foot").append(document.createElement("br"), keys);
document.addEventListener("keydown", press);
setInterval(renew, EVERY);
showLive();

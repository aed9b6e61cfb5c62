// Live pages and keys. Without this file every page works; it only does not renew itself.
"use strict";

const EVERY = 1000;
const WITHOUT_EVENTS = 5000;
const ANYWAY = 10000; // times such as "3 min ago" change without an event
const PAGES = { o: "/", j: "/jobs", q: "/queues", w: "/workers", s: "/schedules", f: "/workflows", l: "/limits", c: "/check" };
const HELP = "/ filter\ng o overview · g j jobs · g q queues · g w workers\ng s schedules · g f workflows · g l limits · g c check\np pause · ? help";
const root = document.body.dataset.root;
let isPaused = false;
let isAway = false;
let isAfterG = false;
let isChanged = false;
let source = null;

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
    const headers = { accept: "text/html", "x-holdfast-live": "1" };
    const answer = await fetch(location.href, { headers, signal: AbortSignal.timeout(8000) });
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

// An event states only that something changed. The page then reads its own address again. A hidden page is not connected.
function connect() {
  source?.close();
  source = null;
  if (document.hidden || !document.querySelector(".live")) return;
  source = new EventSource(`${root}/api/v1/events`);
  const change = () => (isChanged = true);
  for (const topic of ["counts", "job", "queue", "worker", "gap"]) source.addEventListener(topic, change);
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
document.addEventListener("visibilitychange", connect);
setInterval(() => {
  if (!isChanged || isPaused) return;
  isChanged = false;
  renew();
}, EVERY);
setInterval(() => {
  if (!source || source.readyState !== EventSource.OPEN) renew();
}, WITHOUT_EVENTS);
setInterval(renew, ANYWAY);
connect();
showLive();

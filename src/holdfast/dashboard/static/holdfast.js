// Live pages and keys. Without this file every page works; it only does not renew itself.
"use strict";

const EVERY = 1000;
const WITHOUT_EVENTS = 5000;
const ANYWAY = 10000; // times such as "3 min ago" change without an event
const PAGES = {
  o: "/", j: "/jobs", e: "/errors", q: "/queues", w: "/workers", s: "/schedules",
  f: "/workflows", r: "/rows", a: "/audit", l: "/limits", c: "/check",
};
const HELP = `/ filter · j k move · Enter open · x select · . actions
g o overview · g j jobs · g e errors · g q queues · g w workers
g s schedules · g f workflows · g r rows · g a audit · g l limits · g c check
p pause · ? help`;
const root = document.body.dataset.root;
let isPaused = false;
let isAway = false;
let isAfterG = false;
let isChanged = false;
let renewedAt = 0;
let isRenewing = false;
let areNewerAsked = false;
let source = null;

function showLive() {
  const live = document.querySelector(".live");
  if (!live) return;
  live.hidden = false;
  live.classList.toggle("off", isPaused || isAway);
  live.lastElementChild.textContent = isPaused ? "paused" : isAway ? "no answer" : "live";
}

// A page is left alone while somebody has marked text in it, perhaps to copy it.
function isInUse(main) {
  const marked = document.getSelection();
  return !marked.isCollapsed && main.contains(marked.anchorNode);
}

async function renew() {
  const main = document.getElementById("main");
  if (document.hidden || isPaused || !main.querySelector(".live") || isInUse(main)) return;
  renewedAt = Date.now();
  isRenewing = true;
  try {
    const headers = { accept: "text/html", "x-holdfast-live": "1" };
    const answer = await fetch(location.href, { headers, signal: AbortSignal.timeout(8000) });
    isAway = !answer.ok;
    if (answer.ok) replace(main, await answer.text());
  } catch {
    isAway = true;
  }
  isRenewing = false;
  document.body.classList.toggle("stale", isAway);
  showLive();
}

// A change is shown at once, unless the page was renewed just now.
function renewChanged() {
  if (!isChanged || isPaused || isRenewing || Date.now() - renewedAt < EVERY - 100) return;
  isChanged = false;
  renew();
}

// What has changed is changed in place: focus, what was typed and opened parts stay.
function replace(main, html) {
  const next = new DOMParser().parseFromString(html, "text/html").getElementById("main");
  if (!next || isPaused || isInUse(main)) return;
  holdRows(main, next);
  const callbacks = { beforeNodeMorphed: isUntouched, beforeAttributeUpdated: isOfServer };
  Idiomorph.morph(main, next, { morphStyle: "outerHTML", ignoreActiveValue: true, restoreFocus: true, callbacks });
  showSelected();
}

function isUntouched(node, next) {
  if (node.type !== "checkbox" || next.type !== "checkbox") return !isTyped(node);
  node.value = next.value; // a box that stays ticked has the state that its row shows
  return node.checked === node.defaultChecked;
}

function isTyped(node) {
  if (node instanceof HTMLSelectElement) return [...node.options].some((each) => each.selected !== each.defaultSelected);
  return (node instanceof HTMLInputElement || node instanceof HTMLTextAreaElement) && node.value !== node.defaultValue;
}

function isOfServer(name, node) {
  return !(name === "open" && node.matches("details")) && !(name === "class" && node.matches("tr"));
}

// Rows never jump under the pointer, the focus or a selection: new ones wait behind a button, and those that are gone stay, faded.
function holdRows(main, next) {
  const body = main.querySelector("tbody[data-newest]");
  const fresh = next.querySelector("tbody[data-newest]");
  if (!body || !fresh) return;
  const isHeld = body.matches(":hover") || body.contains(document.activeElement) || body.querySelector(".sel");
  const isAsked = areNewerAsked;
  areNewerAsked = false;
  if (!isHeld || isAsked) return body.querySelectorAll(".gone").forEach((row) => row.classList.remove("gone"));
  const known = new Set([...body.rows].map((row) => row.id));
  const rows = new Map([...fresh.rows].map((row) => [row.id, row]));
  const newer = [...fresh.rows].findIndex((row) => known.has(row.id));
  const count = newer < 0 ? rows.size : newer;
  for (const row of body.rows) row.classList.toggle("gone", !rows.has(row.id));
  fresh.replaceChildren(...[...body.rows].map((row) => rows.get(row.id) ?? row.cloneNode(true)));
  const button = next.querySelector(".newer");
  button.hidden = count === 0;
  button.firstElementChild.textContent = `${count} newer`;
}

function showNewer(event) {
  if (!event.target.closest(".newer button")) return;
  areNewerAsked = true;
  renew();
}

// An event states only that something changed. The page then reads its own address again. A hidden page is not connected.
function connect() {
  source?.close();
  source = null;
  if (document.hidden || !document.querySelector(".live")) return;
  source = new EventSource(`${root}/api/v1/events`);
  const change = () => {
    isChanged = true;
    renewChanged();
  };
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

function move(step) {
  const rows = [...document.querySelectorAll("main tbody tr")].filter((row) => row.querySelector("a"));
  const at = rows.findIndex((row) => row.classList.contains("cur"));
  const next = rows[Math.max(0, Math.min(rows.length - 1, at < 0 ? 0 : at + step))];
  rows[at]?.classList.remove("cur");
  next?.classList.add("cur");
  next?.querySelector("a").focus();
}

function boxOf(row) {
  return row.querySelector(".tick input");
}

function select() {
  const row = document.activeElement.closest("tr[id]") ?? document.querySelector("tr.cur[id]");
  if (!row) return;
  const box = boxOf(row);
  row.classList.toggle("sel");
  if (box) box.checked = row.classList.contains("sel");
  showSelected();
}

function tick({ target }) {
  if (!target.matches(".tick input")) return;
  const rows = target.closest(".all") ? document.querySelectorAll("main tbody tr[id]") : [target.closest("tr")];
  for (const row of rows) boxOf(row).checked = target.checked;
  showTicks();
}

// The boxes are the selection: a browser may have kept them from before, and what is ticked is sent.
function showTicks() {
  for (const row of document.querySelectorAll("main tbody tr[id]")) {
    if (boxOf(row)) row.classList.toggle("sel", boxOf(row).checked);
  }
  showSelected();
}

function showSelected() {
  const line = document.querySelector(".selected");
  if (!line) return;
  const rows = [...document.querySelectorAll("tr.sel")];
  const ids = rows.map((row) => row.id.slice(1));
  showBulk(rows);
  line.hidden = ids.length === 0;
  line.firstElementChild.textContent = `${ids.length} selected, for a command:`;
  line.lastElementChild.textContent = ids.join(" ");
}

function showBulk(rows) {
  const bulk = document.querySelector(".bulk");
  if (!bulk) return;
  const count = rows.length;
  const states = rows.map((row) => boxOf(row).value.split(":")[1]);
  const isWhole = count === document.querySelectorAll("main tbody tr[id]").length;
  bulk.classList.toggle("on", count > 0);
  bulk.firstElementChild.textContent = count ? `${count} selected:` : "Selected jobs:";
  for (const button of bulk.querySelectorAll("button")) {
    const fits = button.dataset.fits.split(" ");
    button.disabled = !states.some((state) => fits.includes(state));
  }
  const all = document.querySelector(".all");
  all.hidden = false;
  all.firstElementChild.checked = count > 0 && isWhole;
  all.firstElementChild.indeterminate = count > 0 && !isWhole;
}

function focusAction() {
  const selected = document.querySelector(".bulk button:enabled");
  (selected ?? document.querySelector("tr.cur a.btn, .acts a, .head a.btn, main form button:enabled"))?.focus();
}

const KEYS = {
  "?": toggleHelp,
  j: () => move(1),
  k: () => move(-1),
  x: select,
  ".": focusAction,
  p: () => {
    isPaused = !isPaused;
    showLive();
  },
  "/": () => {
    const field = document.querySelector(".filter input:not([type=hidden])");
    if (field) field.focus();
    else location.assign(`${root}/jobs`);
  },
};

function press(event) {
  if (event.key === "Escape") return document.querySelector(".help")?.remove();
  if (!areKeysOn() || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("input:not([type=checkbox]), select, textarea")) return;
  const page = isAfterG ? PAGES[event.key] : undefined;
  isAfterG = event.key === "g";
  if (page) return location.assign(root + page);
  if (!KEYS[event.key]) return;
  event.preventDefault();
  KEYS[event.key]();
}

const keys = document.createElement("button");
keys.className = "btn sm keys";
keys.textContent = "? keys";
keys.addEventListener("click", toggleHelp);
document.querySelector(".rail .foot").append(document.createElement("br"), keys);
document.addEventListener("keydown", press);
document.addEventListener("click", showNewer);
document.addEventListener("change", tick);
addEventListener("pageshow", showTicks);
document.addEventListener("visibilitychange", connect);
setInterval(renewChanged, EVERY / 4);
setInterval(() => {
  if (!source || source.readyState !== EventSource.OPEN) renew();
}, WITHOUT_EVENTS);
setInterval(renew, ANYWAY);
connect();
showLive();

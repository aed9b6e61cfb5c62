// Pages renew themselves. Without this file they work as well: a running analysis is then read again every 2 s.
"use strict";

let source = null;
let isRenewing = false;
let isChanged = false;

async function renew() {
  isChanged = true;
  if (isRenewing || document.hidden) return;
  isRenewing = true;
  while (isChanged) {
    isChanged = false;
    try {
      const answer = await fetch(location.href.split("#")[0]);
      if (answer.ok) replace(await answer.text());
      showLive(answer.ok);
    } catch {
      showLive(false); // the web server is being restarted
    }
    await new Promise((done) => setTimeout(done, 250));
  }
  isRenewing = false;
}

function replace(html) {
  const page = new DOMParser().parseFromString(html, "text/html");
  const callbacks = { beforeNodeMorphed: (node) => !isTyped(node), beforeAttributeUpdated: (name, node) => !(name === "open" && node.matches("details")) };
  Idiomorph.morph(document.getElementById("main"), page.getElementById("main"), { morphStyle: "outerHTML", ignoreActiveValue: true, restoreFocus: true, callbacks });
  document.title = page.title;
}

function isTyped(node) {
  return node instanceof HTMLInputElement && (node.value !== node.defaultValue || node.checked !== node.defaultChecked);
}

function showLive(isLive) {
  const live = document.querySelector(".live");
  if (!live) return;
  live.hidden = false;
  live.classList.toggle("off", !isLive);
  live.lastElementChild.textContent = isLive ? "live" : "no answer, trying again";
}

function connect() {
  source?.close();
  source = null;
  const address = document.getElementById("main").dataset.events;
  if (!address || document.hidden) return;
  source = new EventSource(address);
  source.addEventListener("progress", renew);
  source.addEventListener("end", () => { source.close(); renew(); });
}

document.addEventListener("visibilitychange", () => { connect(); if (!document.hidden && document.getElementById("main").dataset.live) renew(); });
setInterval(() => {
  if (!document.getElementById("main").dataset.live) return;
  if (source?.readyState === EventSource.CLOSED) connect();
  renew();
}, Number(document.getElementById("main").dataset.live) || 3600000);
connect();
showLive(true);

// The page works without this. With it, what has changed appears by itself, and nothing that is being written is lost.
"use strict";

const stream = new EventSource(document.body.dataset.events);
let isAsking = false, isStale = false;

function isBusy(main) {
  const field = document.activeElement;
  const isWriting = field && main.contains(field) && field.matches("input[type=text], textarea");
  return isWriting || [...main.querySelectorAll("textarea, input[type=text]")].some((each) => each.value !== each.defaultValue);
}

async function refresh() {
  const main = document.querySelector("main");
  if (isAsking || isBusy(main)) { isStale = true; return; }
  isAsking = true; isStale = false;
  try {
    const answer = await fetch(location.pathname + location.search, { headers: { accept: "text/html" } });
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    const open = new Set([...main.querySelectorAll("details[open][id]")].map((each) => each.id));
    for (const name of ["main", "header"]) {
      const old = document.querySelector(name), made = fresh.querySelector(name);
      if (old.innerHTML !== made.innerHTML) old.replaceChildren(...made.childNodes);
    }
    for (const each of main.querySelectorAll("details[id]")) if (open.has(each.id)) each.open = true;
    document.title = fresh.title;
  } finally {
    isAsking = false;
    if (isStale) setTimeout(refresh, 500);
  }
}

stream.addEventListener("changed", refresh);
document.addEventListener("focusout", () => { if (isStale) refresh(); });
// The last thing that a connection may lose is a change: ask again when it is back.
stream.addEventListener("open", () => { if (isStale) refresh(); });
stream.addEventListener("error", () => { isStale = true; });

// What makes the console better to use. Every page works without it.
"use strict";

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

// --- Times: the reader's own zone for the eye, UTC in the title (set by the server). ---

const clock = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium", timeZone: zone });

function showTimes(within) {
  for (const element of within.querySelectorAll("time[datetime]")) {
    const instant = new Date(element.dateTime);
    if (!Number.isNaN(instant.getTime())) element.textContent = clock.format(instant);
  }
}

// The server makes its tables and plots in this zone from the next page on.
function rememberZone() {
  document.cookie = `relay-console-zone=${encodeURIComponent(zone)}; Path=/console; Max-Age=31536000; SameSite=Lax`;
}

// --- Live fragments: data-live names a stream of events; at any of them the fragment is got again. ---

const PAUSE_MS = 500;
const streams = new Map(); // address -> { ids, source }
let session = true;

function follow(within) {
  if (!("EventSource" in window)) return;
  const elements = [...within.querySelectorAll("[data-live][id]")];
  if (within instanceof Element && within.matches("[data-live][id]")) elements.push(within);
  for (const element of elements) {
    const address = new URL(element.dataset.live, location.href);
    if (address.origin !== location.origin) continue;
    if (!streams.has(address.href)) streams.set(address.href, listen(address.href));
    streams.get(address.href).add(element.id);
  }
}

function listen(address) {
  const ids = new Set();
  let waiting = null;
  const source = new EventSource(address);
  const soon = () => {
    waiting ??= setTimeout(async () => {
      waiting = null;
      await Promise.allSettled([...ids].map(refresh));
    }, PAUSE_MS);
  };
  // What happened while the page was on its way, or while the connection was lost, shows as well.
  source.addEventListener("open", soon);
  source.addEventListener("message", soon);
  source.addEventListener("change", soon);
  // A stream that is refused and not merely lost: asking once tells whether the session has ended.
  source.addEventListener("error", () => source.readyState === EventSource.CLOSED && soon());
  addEventListener("pagehide", () => source.close());
  return ids;
}

async function refresh(id) {
  const old = document.getElementById(id);
  if (!old || !session || isBusy(old)) return;
  const answer = await fetch(old.dataset.from ?? location.href, {
    headers: { "X-Fragment": id },
    credentials: "same-origin",
    redirect: "error",
    cache: "no-store",
  });
  if (answer.status === 401) return endSession();
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = page.getElementById(id);
  if (!fresh || isBusy(old)) return;
  showTimes(fresh);
  keepOpen(old, fresh);
  if (fresh.isEqualNode(old)) return;
  const current = old.querySelector("[data-row].current")?.id;
  const focus = focusWithin(old);
  const scroll = scrollWithin(old);
  old.replaceWith(document.adoptNode(fresh));
  scroll();
  if (current) document.getElementById(current)?.classList.add("current");
  focus(fresh);
  fresh.classList.add("fresh");
  setTimeout(() => fresh.classList.remove("fresh"), 2000);
}

// Nothing is taken from under the hands of somebody who is filling it in.
function isBusy(element) {
  const active = document.activeElement;
  return active !== null && element.contains(active) && active.matches("input, select, textarea");
}

// What was opened stays open, and what was closed stays closed.
function keepOpen(old, fresh) {
  for (const details of old.querySelectorAll("details[id]")) {
    const same = fresh.querySelector(`#${CSS.escape(details.id)}`);
    if (same) same.open = details.open;
  }
}

// Leaves wide tables where they were scrolled to.
function scrollWithin(element) {
  const scrolled = [...element.querySelectorAll("[id]")].filter((each) => each.scrollLeft !== 0);
  const places = scrolled.map((each) => [each.id, each.scrollLeft]);
  return () => {
    for (const [id, left] of places) {
      const same = document.getElementById(id);
      if (same) same.scrollLeft = left;
    }
  };
}

// Puts the focus where it was: on the element of the same id, else on the link to the same place.
function focusWithin(element) {
  const active = document.activeElement;
  if (active === null || active === document.body || !element.contains(active)) return () => {};
  const { id } = active;
  const href = active.getAttribute("href");
  return (fresh) => {
    const same = id ? document.getElementById(id) : [...fresh.querySelectorAll("a[href]")].find((a) => a.getAttribute("href") === href);
    same?.focus({ preventScroll: true });
  };
}

function endSession() {
  if (!session) return; // several fragments may find out at once
  session = false;
  const note = document.createElement("div");
  note.className = "message";
  note.setAttribute("role", "alert");
  const link = document.createElement("a");
  link.href = `/console/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`;
  link.textContent = "Sign in again";
  note.append("Your session has ended; this page is no longer kept up to date. ", link);
  document.getElementById("main").before(note);
}

// --- Keyboard: / to search, j and k through rows, Enter opens one, ? tells. ---

const KEYS = [
  ["/", "search"],
  ["j, k", "next, previous row"],
  ["Enter", "open the row"],
  ["?", "this list"],
];

function move(by) {
  const rows = [...document.querySelectorAll("[data-row]")];
  if (rows.length === 0) return;
  const at = rows.findIndex((row) => row.classList.contains("current"));
  const next = rows[Math.max(0, Math.min(rows.length - 1, at < 0 ? (by > 0 ? 0 : rows.length - 1) : at + by))];
  for (const row of rows) row.classList.toggle("current", row === next);
  const link = next.querySelector("a[href]");
  if (link) link.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

function help() {
  let dialog = document.getElementById("keys");
  if (!dialog) {
    dialog = document.createElement("dialog");
    dialog.id = "keys";
    const heading = document.createElement("h2");
    heading.id = "keys-heading";
    heading.textContent = "Keyboard";
    dialog.setAttribute("aria-labelledby", heading.id);
    const list = document.createElement("dl");
    for (const [key, meaning] of KEYS) {
      const term = document.createElement("dt");
      const shown = document.createElement("kbd");
      shown.textContent = key;
      term.append(shown);
      const description = document.createElement("dd");
      description.textContent = meaning;
      list.append(term, description);
    }
    const form = document.createElement("form");
    form.method = "dialog";
    const close = document.createElement("button");
    close.textContent = "Close";
    form.append(close);
    dialog.append(heading, list, form);
    document.body.append(dialog);
  }
  if (!dialog.open) dialog.showModal();
}

function isWriting(target) {
  return target instanceof Element && (target.closest("input, textarea, select, dialog") !== null || target.isContentEditable);
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isWriting(event.target)) return;
  if (event.key === "/") {
    const search = document.querySelector("[data-search]");
    if (!search) return;
    search.focus();
    search.select?.();
  } else if (event.key === "j") move(1);
  else if (event.key === "k") move(-1);
  else if (event.key === "?") help();
  else return;
  event.preventDefault();
});

// A page that the browser kept for "back" may be of a session that has ended, and follows nothing any more.
addEventListener("pageshow", (event) => event.persisted && location.reload());

rememberZone();
showTimes(document);
follow(document);

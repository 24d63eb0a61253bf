/** The Workbench's page: who has signed in reads their conversation, everybody else is asked to. */
import { turnsOf } from "./conversation.js";
import { SignIn } from "./sign_in.js";

const { relay, issuer, client } = document.body.dataset;
const signIn = new SignIn({ issuer, client, resource: relay });
const find = (selector) => document.querySelector(selector);
const getToken = (asked) => signIn.accessToken(asked);

/** How long to wait where a server says nothing of it, in milliseconds. */
const PAUSE = 2000;

function tell(text) {
  find(".notice").textContent = text;
}

/** Show the page to somebody who has not signed in, and say why it is so. */
function welcome(reason = "") {
  find(".turns").replaceChildren();
  find(".conversation").hidden = find(".who").hidden = true;
  find(".welcome").hidden = false;
  tell(reason);
}

function show(conversation) {
  find(".person").textContent = conversation.person;
  find(".turns").replaceChildren(...turnsOf(conversation, { relay, getToken }));
  find(".conversation").hidden = find(".who").hidden = false;
  tell("");
}

/** The conversation, once everybody who has to say something in it is there; null for somebody who has to sign in. */
async function conversation() {
  for (let fresh = false; ; ) {
    const token = await getToken({ fresh });
    if (!token) return null;
    const response = await fetch("/conversation", { headers: { Authorization: `Bearer ${token}` }, cache: "no-store" });
    if (response.ok) return response.json();
    if (response.status === 403) {
      signIn.end();
      welcome("There is no conversation for you here. Sign in as Alice or Bob.");
      return null;
    }
    if (response.status === 401 && fresh) return null;
    fresh = response.status === 401;
    if (fresh) continue;
    tell("The specialists are not all there yet. One moment …");
    await new Promise((resume) => setTimeout(resume, response.headers.get("Retry-After") * 1000 || PAUSE));
  }
}

async function open() {
  try {
    const failed = await signIn.finish();
    if (await getToken()) tell("The specialists are at work …");
    const found = await conversation();
    if (found) show(found);
    else if (find(".welcome").hidden) welcome(failed);
  } catch (error) {
    console.error(error);
    welcome("The Workbench cannot be reached. Reload to try again.");
  }
}

find(".sign-in").addEventListener("click", () =>
  signIn.begin().catch(() => tell("The sign-in cannot be reached. Try again in a moment.")),
);
find(".sign-out").addEventListener("click", () => {
  signIn.end();
  // A new page: nothing of this person is left in its memory.
  location.replace("/");
});
signIn.addEventListener("ended", () => {
  welcome("Your sign-in has ended. Sign in again to go on; what you wrote is kept.");
  // Where the focus was is gone.
  find(".sign-in").focus();
});

open();

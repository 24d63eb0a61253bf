/**
 * Signing in by the authorization code grant with PKCE (RFC 6749 section 4.1, RFC 7636), from a page that can keep no
 * secret. Tokens stay in this tab: a reload finds them, another tab does not, and closing it forgets them.
 */
const TOKENS = "workbench:tokens";
const ASKED = "workbench:asked";
const SCOPES = "feedback:read feedback:write offline_access";

/** A token that ends sooner than this is renewed before it is used, in milliseconds. */
const MARGIN = 30_000;

const FAILED = "The sign-in did not work. Try again.";

/** The issuer gives out no tokens for this, and would give out none the next time. */
class Refused extends Error {}

/** Instead of Refused this value; whatever else went wrong goes on. */
const orRefused = (value) => (error) => {
  if (error instanceof Refused) return value;
  throw error;
};

/** Tells `ended` when there was a sign-in and it cannot be renewed. */
export class SignIn extends EventTarget {
  #issuer;
  #client;
  #resource;
  #metadata;
  #renewing;

  constructor({ issuer, client, resource }) {
    super();
    this.#issuer = issuer;
    this.#client = client;
    this.#resource = resource;
  }

  /** Leave the page for the issuer's. */
  async begin() {
    const [verifier, state] = [secret(), secret()];
    const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier));
    const address = new URL((await this.#discover()).authorization_endpoint);
    address.search = new URLSearchParams({
      response_type: "code",
      client_id: this.#client,
      redirect_uri: redirectUri(),
      scope: SCOPES,
      resource: this.#resource,
      state,
      code_challenge: base64url(new Uint8Array(digest)),
      code_challenge_method: "S256",
    });
    write(ASKED, { verifier, state });
    location.assign(address);
  }

  /** Take the issuer's answer out of the address, if one came, and act on it; gives a sentence where that failed. */
  async finish() {
    const answer = new URLSearchParams(location.search);
    if (!answer.has("state")) return "";
    history.replaceState(null, "", redirectUri());
    const asked = read(ASKED);
    write(ASKED, null);
    // RFC 9700 section 4.7 and RFC 9207: an answer that was not asked for, or is somebody else's, is none.
    if (asked?.state !== answer.get("state") || answer.get("iss") !== this.#issuer) return FAILED;
    if (answer.get("error") === "access_denied") return "You are not signed in.";
    if (!answer.has("code")) return FAILED;
    const [code, verifier] = [answer.get("code"), asked.verifier];
    return this.#obtain({ grant_type: "authorization_code", code, redirect_uri: redirectUri(), code_verifier: verifier })
      .then(() => "")
      .catch(orRefused(FAILED));
  }

  /** An access token, or null for somebody who has to sign in; `fresh` says that the last one was refused. */
  async accessToken({ fresh = false } = {}) {
    const kept = read(TOKENS);
    if (!kept) return null;
    if (!fresh && Date.now() < kept.ends - MARGIN) return kept.access;
    // A refresh token is good once: whoever asks meanwhile waits for the same answer.
    this.#renewing ??= this.#renew(kept.refresh).finally(() => (this.#renewing = undefined));
    return this.#renewing;
  }

  /** Forget the tokens. */
  end() {
    write(TOKENS, null);
  }

  async #renew(refresh) {
    const access = await this.#obtain({ grant_type: "refresh_token", refresh_token: refresh }).catch(orRefused(null));
    if (access) return access;
    this.end();
    this.dispatchEvent(new Event("ended"));
    return null;
  }

  /** Ask for tokens and keep them. Throws Refused where the issuer refuses; anything else may work later. */
  async #obtain(parameters) {
    const body = new URLSearchParams({ client_id: this.#client, resource: this.#resource, ...parameters });
    const { token_endpoint: endpoint } = await this.#discover();
    const response = await fetch(endpoint, { method: "POST", body, cache: "no-store", credentials: "omit" });
    if (response.status >= 500) throw new Error(`the issuer answered ${response.status}`);
    if (!response.ok) throw new Refused();
    const { access_token: access, refresh_token, expires_in: seconds } = await response.json();
    write(TOKENS, { access, refresh: refresh_token, ends: Date.now() + seconds * 1000 });
    return access;
  }

  async #discover() {
    this.#metadata ??= await this.#published();
    return this.#metadata;
  }

  async #published() {
    const response = await fetch(`${this.#issuer}/.well-known/oauth-authorization-server`, { credentials: "omit" });
    if (!response.ok) throw new Error(`the issuer answered ${response.status}`);
    return response.json();
  }
}

/** The page itself, as it is registered at the issuer. */
const redirectUri = () => `${location.origin}/`;

const secret = () => base64url(crypto.getRandomValues(new Uint8Array(32)));

const base64url = (bytes) =>
  btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

const read = (key) => JSON.parse(sessionStorage.getItem(key));

function write(key, value) {
  if (value === null) sessionStorage.removeItem(key);
  else sessionStorage.setItem(key, JSON.stringify(value));
}

"""People sign in at the demonstration's issuer with a browser, by the authorization code grant with PKCE."""

import re
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from joserfc import jwt
from joserfc.jwk import KeySet

from registry.credentials.assertions import client_assertion, signing_key
from registry.egress import Egress, Exchange
from relay.demo import issuer as issuers
from relay.demo.codes import challenge
from relay.demo.grants import Resources
from relay.demo.issuer import Issuer
from tests.conftest import TurnableClock
from tests.support.demo import LEFT_OUT, NOW, RELAY, get, post_form, post_json, read, verified, without

PAGE = "http://127.0.0.1:7000/signed-in"
VERIFIER = "a" * 43


@pytest.fixture
async def issuer(issuer_state: Path, clock: TurnableClock) -> AsyncIterator[Issuer]:
    async with issuers.running(issuer_state, Resources(relay=RELAY), pages=[PAGE], clock=clock) as issuer:
        yield issuer


class Browser:
    """Somebody who signs in to the Workbench's page, a public client."""

    def __init__(self, issuer: Issuer, egress: Egress) -> None:
        self.issuer = issuer.url
        self.egress = egress

    def address(self, **changes: Any) -> str:
        query = {
            "client_id": "workbench-page",
            "redirect_uri": PAGE,
            "response_type": "code",
            "code_challenge": challenge(VERIFIER),
            "code_challenge_method": "S256",
            "scope": "openid feedback:write operator:read",
            "state": "s-1",
            "nonce": "n-1",
            **changes,
        }
        return f"{self.issuer}/authorize?{urlencode(without(query))}"

    async def open(self, **changes: Any) -> Exchange:
        return await get(self.egress, self.address(**changes))

    async def choose(self, person: str, **changes: Any) -> dict[str, list[str]]:
        """Where the click leads, by its parameters."""
        answer = await post_form(self.egress, self.address(**changes), {"person": person})
        return came_back(answer)

    async def code(self, person: str = "alice", **changes: Any) -> str:
        return (await self.choose(person, scope="openid feedback:write", **changes))["code"][0]

    async def redeem(self, of_code: str, **changes: Any) -> Exchange:
        form = {
            "grant_type": "authorization_code",
            "client_id": "workbench-page",
            "code": of_code,
            "redirect_uri": PAGE,
            "code_verifier": VERIFIER,
            **changes,
        }
        return await post_form(self.egress, f"{self.issuer}/token", without(form))


def came_back(answer: Exchange) -> dict[str, list[str]]:
    assert answer.status == HTTPStatus.SEE_OTHER
    address = urlsplit(answer.headers["location"])
    assert f"{address.scheme}://{address.netloc}{address.path}" == PAGE
    return parse_qs(address.query)


@pytest.fixture
def browser(issuer: Issuer, egress: Egress) -> Browser:
    return Browser(issuer, egress)


class TestSigningIn:
    async def test_the_page(self, browser: Browser, issuer: Issuer, egress: Egress) -> None:
        """The page has a button for each person whose access stands; nothing on it runs or comes from elsewhere."""
        await post_json(egress, f"{issuer.url}/demo/revoke", {"user": "bob"})
        shown = await browser.open(scope="openid feedback:write", state='"><script>')
        text = shown.body.decode()
        assert re.findall(r'name="person" value="(\w*)"', text) == ["alice", "operator", ""]
        assert "<script" not in text
        policy = shown.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "form-action 'self' http://127.0.0.1:7000;" in policy

    async def test_tokens(self, browser: Browser, issuer: Issuer, egress: Egress) -> None:
        """A click brings a code; the code an access token for the relay, and an ID token for the client."""
        parameters = await browser.choose("alice", scope="openid feedback:write")
        assert (parameters["state"], parameters["iss"]) == (["s-1"], [issuer.url])
        answer = read(await browser.redeem(parameters["code"][0]))

        access = await verified(issuer, egress, answer["access_token"])
        assert access.header["typ"] == "at+jwt"
        told = {name: access.claims[name] for name in ("sub", "aud", "client_id", "scope", "auth_time")}
        assert told == {
            "sub": "alice",
            "aud": RELAY,
            "client_id": "workbench",
            "scope": "feedback:write",
            "auth_time": NOW,
        }
        keys = KeySet.import_key_set(read(await get(egress, f"{issuer.url}/jwks.json")))
        identity = jwt.decode(answer["id_token"], keys, algorithms=["ES256"]).claims
        assert (identity["aud"], identity["sub"], identity["nonce"]) == ("workbench-page", "alice", "n-1")
        assert "refresh_token" not in answer

    async def test_nobody(self, browser: Browser) -> None:
        """Who does not want to, and who is not there, brings the client an error and no code."""
        for person in ("", "mallory"):
            parameters = await browser.choose(person, scope="openid")
            assert (parameters["error"], "code" in parameters) == (["access_denied"], False)

    @pytest.mark.parametrize(
        ("change", "error"),
        [
            ({"response_type": "token"}, "unsupported_response_type"),
            ({"code_challenge": LEFT_OUT}, "invalid_request"),
            ({"code_challenge_method": "plain"}, "invalid_request"),
            ({"scope": "operator:read"}, "invalid_scope"),
            ({"resource": "https://evil.example"}, "invalid_target"),
            ({"prompt": "none"}, "login_required"),
        ],
        ids=str,
    )
    async def test_refused_requests(self, browser: Browser, change: dict[str, Any], error: str) -> None:
        """What is not offered goes back to the client as an error, at the page as at its form."""
        change = {"scope": "openid", **change}
        assert came_back(await browser.open(**change))["error"] == [error]
        assert (await browser.choose("alice", **change))["error"] == [error]

    @pytest.mark.parametrize(
        "change",
        [{"client_id": "mallory"}, {"redirect_uri": PAGE + "/"}, {"redirect_uri": "https://evil.example"}],
        ids=str,
    )
    async def test_nowhere_to_go(self, browser: Browser, change: dict[str, Any]) -> None:
        """An address that is not registered, character by character, is never gone to."""
        answer = await browser.open(**change)
        assert (answer.status, "location" in answer.headers) == (400, False)


class TestRedeeming:
    @pytest.mark.parametrize(
        "change",
        [
            {"code_verifier": "b" * 43},
            {"code_verifier": LEFT_OUT},
            {"redirect_uri": LEFT_OUT},
            {"code": "made-up"},
        ],
        ids=str,
    )
    async def test_not_its_own(self, browser: Browser, change: dict[str, Any]) -> None:
        """A code brings nothing without the verifier of its challenge and the address that it went to."""
        answer = await browser.redeem(await browser.code(), **change)
        assert (answer.status, read(answer)["error"]) == (400, "invalid_grant")

    async def test_once_and_soon(self, browser: Browser, clock: TurnableClock) -> None:
        """A code is good once, and for a minute."""
        code = await browser.code()
        assert (await browser.redeem(code)).status == 200
        assert read(await browser.redeem(code))["error"] == "invalid_grant"
        late = await browser.code()
        clock.turn(60)
        assert read(await browser.redeem(late))["error"] == "invalid_grant"

    async def test_refreshing(self, browser: Browser) -> None:
        """A refresh token is good once and brings the next; one that is shown twice ends the chain."""
        scope = "openid offline_access feedback:write"
        code = (await browser.choose("alice", scope=scope))["code"][0]
        first = read(await browser.redeem(code))["refresh_token"]

        async def refresh(token: str) -> Exchange:
            form = {"grant_type": "refresh_token", "client_id": "workbench-page", "refresh_token": token}
            return await post_form(browser.egress, f"{browser.issuer}/token", form)

        second = read(await refresh(first))["refresh_token"]
        assert read(await refresh(first))["error"] == "invalid_grant"
        assert read(await refresh(second))["error"] == "invalid_grant"

    async def test_from_a_page(self, browser: Browser) -> None:
        """A page of the public client may read the answer; a page of another origin may not."""
        form = {"grant_type": "authorization_code", "client_id": "workbench-page"}
        for origin, shared in (("http://127.0.0.1:7000", True), ("https://evil.example", False)):
            answer = await post_form(browser.egress, f"{browser.issuer}/token", form, Origin=origin)
            assert ("access-control-allow-origin" in answer.headers) is shared

    async def test_console(self, issuer: Issuer, issuer_state: Path, egress: Egress) -> None:
        """The console has to prove itself, and gets of its scopes what the person has: alice is no operator."""
        address = f"{RELAY}/console/callback"
        query = {
            "client_id": "console",
            "redirect_uri": address,
            "response_type": "code",
            "code_challenge": challenge(VERIFIER),
            "code_challenge_method": "S256",
        }
        scopes = {}
        for person in ("operator", "alice"):
            answer = await post_form(egress, f"{issuer.url}/authorize?{urlencode(query)}", {"person": person})
            code = parse_qs(urlsplit(answer.headers["location"]).query)["code"][0]
            form = {
                "grant_type": "authorization_code",
                "client_id": "console",
                "code": code,
                "redirect_uri": address,
                "code_verifier": VERIFIER,
            }
            assert (await post_form(egress, f"{issuer.url}/token", form)).status == 401
            key = signing_key((issuer_state / "console.pem").read_bytes())
            form |= {
                "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
                "client_assertion": client_assertion(key, client_id="console", issuer=issuer.url, now=NOW),
            }
            scopes[person] = read(await post_form(egress, f"{issuer.url}/token", form))["scope"]
        assert scopes == {"operator": "operator:read operator:write registry:admin", "alice": ""}

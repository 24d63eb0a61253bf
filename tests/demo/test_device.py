"""People sign in at the demonstration's issuer from a terminal, by the device authorization grant (RFC 8628)."""

from typing import Any
from urllib.parse import urlencode

import pytest

from registry.egress import Egress
from relay.demo.issuer import Issuer
from tests.conftest import TurnableClock
from tests.support.demo import LEFT_OUT, RELAY, get, post_form, read, verified, without

DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"


class Terminal:
    """A command line that somebody signs in to."""

    def __init__(self, issuer: Issuer, egress: Egress) -> None:
        self.issuer = issuer.url
        self.egress = egress

    async def begin(self, **changes: Any) -> dict[str, Any]:
        form = without({"client_id": "relay-cli", "scope": "operator:read", **changes})
        return dict(read(await post_form(self.egress, f"{self.issuer}/device_authorization", form)))

    async def ask(self, begun: dict[str, Any], **changes: Any) -> dict[str, Any]:
        form = {"grant_type": DEVICE_CODE, "client_id": "relay-cli", "device_code": begun["device_code"], **changes}
        return dict(read(await post_form(self.egress, f"{self.issuer}/token", form)))

    async def choose(self, user_code: str, person: str) -> int:
        where = f"{self.issuer}/device?{urlencode({'user_code': user_code})}"
        return (await post_form(self.egress, where, {"person": person})).status


@pytest.fixture
def terminal(issuer: Issuer, egress: Egress) -> Terminal:
    return Terminal(issuer, egress)


async def test_a_person_signs_in_and_the_terminal_has_their_token_once(terminal: Terminal, issuer: Issuer):
    """It waits, the page names the code, a click answers, and the code is used up."""
    begun = await terminal.begin()
    assert (await terminal.ask(begun))["error"] == "slow_down"
    page = await get(terminal.egress, begun["verification_uri_complete"])
    assert begun["user_code"].encode() in page.body
    assert await terminal.choose(begun["user_code"].replace("-", "").lower(), "operator") == 200
    answer = await terminal.ask(begun)
    claims = (await verified(issuer, terminal.egress, answer["access_token"])).claims
    assert (claims["sub"], claims["client_id"], claims["aud"]) == ("operator", "relay-cli", RELAY)
    assert (claims["scope"], "refresh_token" in answer) == ("operator:read", False)
    assert (await terminal.ask(begun))["error"] == "invalid_grant"


async def test_a_refresh_token_goes_along_where_it_was_asked_for(terminal: Terminal):
    """It brings a new access token and a new refresh token."""
    begun = await terminal.begin(scope="operator:read offline_access")
    await terminal.choose(begun["user_code"], "operator")
    first = await terminal.ask(begun)
    form = {"grant_type": "refresh_token", "client_id": "relay-cli", "refresh_token": first["refresh_token"]}
    second = read(await post_form(terminal.egress, f"{terminal.issuer}/token", form))
    assert second["access_token"] != first["access_token"]
    assert second["refresh_token"] != first["refresh_token"]


async def test_what_a_person_may_not_have_is_left_out(terminal: Terminal, issuer: Issuer):
    """Alice operates nothing, whatever the terminal asks for."""
    begun = await terminal.begin(scope=LEFT_OUT)
    await terminal.choose(begun["user_code"], "alice")
    claims = (await verified(issuer, terminal.egress, (await terminal.ask(begun))["access_token"])).claims
    assert claims["scope"] == ""


async def test_waiting_is_told_how_to_go_on_and_when_it_is_over(terminal: Terminal, clock: TurnableClock):
    """Pending at the right pace, slow_down at a faster one, expired after ten minutes, denied after a no."""
    begun, denied = await terminal.begin(), await terminal.begin()
    clock.turn(begun["interval"])
    assert (await terminal.ask(begun))["error"] == "authorization_pending"
    assert (await terminal.ask(begun))["error"] == "slow_down"
    assert await terminal.choose(denied["user_code"], "") == 200
    assert (await terminal.ask(denied))["error"] == "access_denied"
    clock.turn(begun["expires_in"])
    assert await terminal.choose(begun["user_code"], "operator") == 404
    assert (await terminal.ask(begun))["error"] == "expired_token"


async def test_only_its_own_client_may_ask(terminal: Terminal):
    """Clients of other grants, and nobody at all, are turned away at both endpoints."""
    assert (await terminal.begin(client_id="console"))["error"] == "invalid_client"
    assert (await terminal.begin(client_id=LEFT_OUT))["error"] == "invalid_client"
    assert (await terminal.begin(scope="feedback:write"))["error"] == "invalid_scope"
    assert (await terminal.ask({"device_code": "made up"}))["error"] == "invalid_grant"
    assert (await terminal.ask(await terminal.begin(), client_id="console"))["error"] == "invalid_client"

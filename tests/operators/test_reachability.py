"""Whether what a configuration points at is found, or found wanting: with real servers, good ones and bad ones."""

from pathlib import Path

import pytest

from registry.egress import Egress
from registry.egress_failures import KINDS
from relay.config import load
from relay.operators.reachability import Finding, look_at_all
from relay.operators.reachability_advice import advice_on
from tests.support.peers import answers
from tests.support.reachable import Surroundings, surroundings


async def looked(around: Surroundings) -> dict[str, Finding]:
    """What is found, by kind. That it was told of as it came is checked on the way."""
    config = load(around.config, {})
    told: list[Finding] = []
    async with Egress(config.egress_policy()) as egress:
        findings = await look_at_all(config, egress, told.append)
    assert sorted(told, key=repr) == sorted(findings, key=repr)
    return {finding.kind: finding for finding in findings}


def problems(found: dict[str, Finding]) -> dict[str, str | None]:
    return {kind: finding.problem for kind, finding in found.items()}


async def test_all_is_in_order(tmp_path: Path):
    """An issuer with keys, a token endpoint that refuses properly, an agent behind a private authority's TLS."""
    async with surroundings(tmp_path) as around:
        found = await looked(around)
        assert problems(found) == {"issuer": None, "token_endpoint": None, "agent": None}
        assert found["issuer"].told == "keys that fit its algorithms: 1 of 1"
        assert found["token_endpoint"].told.endswith("unsupported_grant_type")
        assert found["agent"].told == "answers over TLS, with status 404"
        assert [finding.advice for finding in found.values()] == [None] * 3


async def test_what_is_sent_can_do_nothing(tmp_path: Path):
    """No credential, no grant that exists, no method that changes anything."""
    async with surroundings(tmp_path) as around:
        await looked(around)
        [form] = around.endpoint.forms
        assert form == {"grant_type": "urn:feedback-relay:check"}
        [request] = around.agent.received
        assert request.lines[0] == b"HEAD / HTTP/1.1"
        assert b"authorization" not in request.head.lower()
        assert not {name.lower() for name in around.endpoint.headers[0]} & {"authorization", "cookie", "dpop"}


async def test_each_address_is_asked_once(tmp_path: Path):
    """Agents may share a token endpoint; one that has not opted in is not looked at, since nothing goes there."""
    async with surroundings(tmp_path) as around:
        text = around.config.read_text()
        start, end = text.index('  [[agents.credentials]]\n  mode = "client_cred'), text.index("\n[egress]")
        second = text[start:end]
        other = '\n[[agents]]\nid = "quiet"\nname = "Quiet"\norigin = "https://quiet.example.org"\n'
        around.change("\n[egress]", f"{second}\n{other}\n[egress]")
        found = await looked(around)
        assert len(around.endpoint.forms) == 1
        assert problems(found) == {"issuer": None, "token_endpoint": None, "agent": None}


async def test_a_server_of_an_unknown_authority_would_fail(tmp_path: Path):
    """The very thing that ca_file is for; the advice says so, and where."""
    async with surroundings(tmp_path) as around:
        around.change(f'ca_file = "{tmp_path}/ca.pem"', 'ca_file = ""')
        found = (await looked(around))["agent"]
        assert found.problem == "tls_failed"
        assert "certificate" in found.told
        assert "[egress] ca_file" in str(found.advice)
        assert found.named == "[[agents]] literature, origin"


async def test_a_network_that_is_not_allowed_would_fail(tmp_path: Path):
    """The policy of the egress holds here too: a denied address is not dialled, and the advice names the keys."""
    async with surroundings(tmp_path) as around:
        around.change("[egress]\n", '[egress]\ndeny_networks = ["127.0.0.0/8", "::1/128"]\n')
        found = await looked(around)
        assert set(problems(found).values()) == {"address_refused"}
        assert "127.0.0.1 is denied" in found["issuer"].told
        assert "[egress] allow_networks" in str(found["issuer"].advice)
        assert around.agent.connections == 0


async def test_an_issuer_that_would_not_do(tmp_path: Path):
    """Another issuer's metadata, keys elsewhere, keys of other algorithms, no metadata at all."""
    async with surroundings(tmp_path) as around:
        around.issuer.metadata = {"issuer": f"{around.issuer.url}/"}
        assert (await looked(around))["issuer"].problem == "metadata_of_another_issuer"
        around.issuer.metadata = {"jwks_uri": "https://keys.example.org/jwks"}
        assert (await looked(around))["issuer"].problem == "jwks_uri_at_another_origin"
        around.issuer.metadata = {}
        around.issuer.discovery = set()
        found = (await looked(around))["issuer"]
        assert (found.problem, found.told) == ("status_404", "answers with status 404")
        around.issuer.discovery = {"oidc"}
        around.issuer.key_set_body = b'{"keys": []}'
        assert (await looked(around))["issuer"].problem == "no_key_for_algorithms"


async def test_keys_must_fit_the_algorithms(tmp_path: Path):
    """An issuer whose keys are for algorithms that are not configured would have every token refused."""
    async with surroundings(tmp_path) as around:
        around.change('audience = "https://relay', 'algorithms = ["RS256"]\naudience = "https://relay')
        found = (await looked(around))["issuer"]
        assert (found.problem, found.told) == ("no_key_for_algorithms", "none of its keys fits the algorithms (RS256)")


@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (401, b'{"error":"invalid_client"}', None),
        (400, b'{"error":"invalid_request","error_description":"x"}', None),
        (200, b'{"access_token":"x","token_type":"Bearer"}', "not_a_token_endpoint"),
        (200, b'{"error":"invalid_request"}', "not_a_token_endpoint"),
        (404, b"<html>", "not_a_token_endpoint"),
        (400, b'{"message":"bad"}', "not_a_token_endpoint"),
        (400, b'{"error":"\\u001b[31mred"}', "not_a_token_endpoint"),
        (400, b'["error"]', "not_a_token_endpoint"),
        (503, b'{"error":"temporarily_unavailable"}', "not_a_token_endpoint"),
        (307, b"", "redirected"),
    ],
)
async def test_a_token_endpoint_refuses_as_its_rfc_says(tmp_path: Path, status: int, body: bytes, problem: str | None):
    """RFC 6749 section 5.2: a client error whose body is JSON with a code. Nothing else shows what listens there."""
    async with surroundings(tmp_path) as around:
        around.endpoint.answer = (status, body)
        found = (await looked(around))["token_endpoint"]
        assert found.problem == problem
        assert found.told.isprintable()
        assert (f"status {status}" in found.told) == (problem is not None)


async def test_an_agent_that_is_not_there(tmp_path: Path):
    """Nothing listens at its port."""
    async with surroundings(tmp_path) as around:
        around.change(f"https://localhost:{around.agent.port}", "https://localhost:1")
        found = (await looked(around))["agent"]
        assert (found.problem, found.url) == ("connect_failed", "https://localhost:1")


async def test_an_agent_that_does_not_speak_http(tmp_path: Path):
    """TLS alone is not enough: the answer must be one."""
    async with surroundings(tmp_path, answers(b"SSH-2.0-OpenSSH_9.9\r\n\r\n")) as around:
        assert (await looked(around))["agent"].problem == "malformed_answer"


def test_there_is_advice_on_every_failure_of_the_egress():
    """But for those that mean a fault of ours; nothing is printed that is not a sentence of ours or the system's."""
    for kind in {kind for _, kind in KINDS} - {"url_refused"}:
        assert advice_on(kind).told != kind, kind
    assert advice_on("unexpected").told == "unexpected"


async def test_where_operators_sign_in(tmp_path: Path):
    """The console's issuer is one that people can sign in at, or it is said what is missing; nothing is sent to it."""
    async with surroundings(tmp_path) as around:
        section = f'[console]\nissuer = "{around.issuer.url}"\nclient_id = "console"\n'
        around.change("\n[egress]", f"\n{section}\n[egress]")
        endpoints = {name: f"{around.issuer.url}/{name}" for name in ("authorization_endpoint", "token_endpoint")}
        around.issuer.metadata = {**endpoints}
        found = (await looked(around))["console"]
        assert (found.problem, found.told) == (None, f"people sign in at {around.issuer.url}/authorization_endpoint")
        around.issuer.metadata = {**endpoints, "token_endpoint": around.endpoint.url}
        found = (await looked(around))["console"]
        assert found.problem == "token_endpoint_at_another_origin"
        assert found.advice == "if that is right, set token_endpoint in [console] to that address"
        around.issuer.metadata = {}
        assert (await looked(around))["console"].problem == "metadata_without_authorization_endpoint"

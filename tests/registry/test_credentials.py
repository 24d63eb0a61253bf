"""How the relay gets the Authorization of an attempt, from token endpoints that behave and others that do not."""

import asyncio
import contextlib
import dataclasses
import json
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from joserfc.jwk import ECKey, RSAKey

from registry.credentials import Authorizations, CredentialFailure, Purpose, secret_files
from registry.credentials.secret_files import SecretUnusable
from registry.credentials.token_endpoint import AccessToken
from registry.egress import Egress, EgressPolicy
from registry.model import ClientCredentials, Credential, OwnerAssertion, StaticBearer
from tests.conftest import TurnableClock
from tests.support.credentials import ISSUER, KEY, PURPOSE, RELAY, RESOURCE, private_file
from tests.support.token_endpoint import TokenEndpoint, authorization_of

NOW = 1_800_000_000.0

RSA_KEY = RSAKey.generate_key(2048)


@pytest.fixture
def machine(endpoint: TokenEndpoint, key_file: str) -> ClientCredentials:
    return ClientCredentials(
        issuer=ISSUER,
        client_id="workbench",
        token_endpoint=endpoint.url,
        key_file=key_file,
        resource=RESOURCE,
        scope="feedback:write feedback:read",
    )


@pytest.fixture
def owner(endpoint: TokenEndpoint, key_file: str) -> OwnerAssertion:
    return OwnerAssertion(
        issuer=ISSUER,
        client_id="workbench",
        token_endpoint=endpoint.url,
        key_file=key_file,
        resource=RESOURCE,
        scope="feedback:write",
    )


async def header(
    authorizations: Authorizations,
    credential: Credential,
    *,
    subject: str | None = None,
    purpose: Purpose = PURPOSE,
    deadline: float = 10,
    fresh: bool = False,
) -> str:
    """The value of the header that the credential gets for a request."""
    access = await authorizations.access_for(
        credential, subject=subject, purpose=purpose, deadline=deadline, fresh=fresh
    )
    return await authorization_of(access)


async def failure(authorizations: Authorizations, credential: Credential, **options: float) -> CredentialFailure:
    with pytest.raises(CredentialFailure) as caught:
        await header(authorizations, credential, **options)
    return caught.value


class TestClientCredentials:
    async def test_request(
        self, authorizations: Authorizations, machine: ClientCredentials, endpoint: TokenEndpoint
    ) -> None:
        """The token endpoint is asked for the registered resource and scope, and its token goes out."""
        value = await header(authorizations, machine)

        form = endpoint.forms[0]
        assert form.pop("client_assertion")
        assert form == {
            "grant_type": "client_credentials",
            "resource": RESOURCE,
            "scope": "feedback:write feedback:read",
            "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        }
        assert endpoint.headers[0]["Content-Type"] == "application/x-www-form-urlencoded"
        assert "Authorization" not in endpoint.headers[0]
        assert value.startswith("Bearer ")

    async def test_no_scope(
        self, authorizations: Authorizations, machine: ClientCredentials, endpoint: TokenEndpoint
    ) -> None:
        """Without a registered scope none is asked for, rather than an empty one."""
        await header(authorizations, dataclasses.replace(machine, scope=""))
        assert "scope" not in endpoint.forms[0]

    async def test_client_assertion(
        self, authorizations: Authorizations, machine: ClientCredentials, endpoint: TokenEndpoint
    ) -> None:
        """The client proves itself to this issuer alone, for at most a minute, by a key named by its thumbprint."""
        await header(authorizations, machine)

        token = endpoint.assertion("client_assertion", KEY)
        assert token.header == {"typ": "JWT", "alg": "ES256", "kid": KEY.thumbprint()}
        assert token.claims.pop("jti")
        assert token.claims == {
            "iss": "workbench",
            "sub": "workbench",
            "aud": ISSUER,
            "iat": int(NOW),
            "exp": int(NOW) + 60,
        }

    async def test_fresh_jti(
        self, authorizations: Authorizations, machine: ClientCredentials, endpoint: TokenEndpoint
    ) -> None:
        """No two assertions share a jti, so that a server that refuses replays takes both."""
        for _ in range(2):
            await header(authorizations, machine, fresh=True)
        first, second = (endpoint.assertion("client_assertion", KEY, n).claims["jti"] for n in (0, 1))
        assert first != second

    async def test_rsa_key(
        self, authorizations: Authorizations, machine: ClientCredentials, endpoint: TokenEndpoint, tmp_path: Path
    ) -> None:
        """An RSA key signs RS256."""
        path = private_file(tmp_path / "rsa.pem", RSA_KEY.as_pem(private=True))
        await header(authorizations, dataclasses.replace(machine, key_file=path))
        token = endpoint.assertion("client_assertion", RSA_KEY)
        assert (token.header["alg"], token.header["kid"]) == ("RS256", RSA_KEY.thumbprint())

    async def test_kept_until_shortly_before_expiry(
        self, authorizations: Authorizations, machine: ClientCredentials, endpoint: TokenEndpoint, clock: TurnableClock
    ) -> None:
        """A token of 300 seconds is used for 270, and replaced while it is still good."""
        first = await header(authorizations, machine)
        clock.now += 269
        assert await header(authorizations, machine) == first
        clock.now += 1
        assert await header(authorizations, machine) != first
        assert len(endpoint.forms) == 2

    async def test_short_token(
        self, authorizations: Authorizations, machine: ClientCredentials, endpoint: TokenEndpoint, clock: TurnableClock
    ) -> None:
        """A token that lives for less than the usual margin is still used for most of its life."""
        endpoint.expires_in = 20
        first = await header(authorizations, machine)
        clock.now += 14
        assert await header(authorizations, machine) == first
        clock.now += 1
        assert await header(authorizations, machine) != first

    async def test_very_long_token(
        self, authorizations: Authorizations, machine: ClientCredentials, endpoint: TokenEndpoint, clock: TurnableClock
    ) -> None:
        """However long a token is said to live, it is asked for again after a day."""
        endpoint.expires_in = 10**12
        first = await header(authorizations, machine)
        clock.now += 86_400
        assert await header(authorizations, machine) != first

    async def test_unknown_lifetime(
        self, authorizations: Authorizations, machine: ClientCredentials, endpoint: TokenEndpoint
    ) -> None:
        """A token without expires_in is used once."""
        endpoint.expires_in = None
        assert await header(authorizations, machine) != await header(authorizations, machine)

    async def test_kept_per_credential(
        self, authorizations: Authorizations, machine: ClientCredentials, endpoint: TokenEndpoint
    ) -> None:
        """A token for one resource is never presented at another."""
        other = dataclasses.replace(machine, resource="https://chemistry.example.org")
        assert await header(authorizations, machine) != await header(authorizations, other)
        assert [form["resource"] for form in endpoint.forms] == [RESOURCE, "https://chemistry.example.org"]

    async def test_fresh(self, authorizations: Authorizations, machine: ClientCredentials) -> None:
        """After a 401 the kept token is replaced, and the new one is kept."""
        first = await header(authorizations, machine)
        second = await header(authorizations, machine, fresh=True)
        assert first != second == await header(authorizations, machine)

    async def test_refused_token_is_not_used_again(
        self, authorizations: Authorizations, machine: ClientCredentials, endpoint: TokenEndpoint
    ) -> None:
        """Where no new token can be had, the one that a specialist refused does not come back."""
        first = await header(authorizations, machine)
        endpoint.refuse("temporarily_unavailable", 503)
        with pytest.raises(CredentialFailure):
            await header(authorizations, machine, fresh=True)
        with pytest.raises(CredentialFailure):
            await header(authorizations, machine)
        endpoint.answer = None
        assert await header(authorizations, machine) != first

    async def test_refused_token_is_not_used_meanwhile(
        self, authorizations: Authorizations, machine: ClientCredentials, endpoint: TokenEndpoint
    ) -> None:
        """While a fresh token is on its way nobody else goes out with the one that was refused."""
        refused = await header(authorizations, machine)
        await endpoint.arrived.acquire()
        endpoint.hang()
        async with asyncio.TaskGroup() as group:
            fresh = group.create_task(header(authorizations, machine, fresh=True))
            await endpoint.arrived.acquire()
            other = group.create_task(header(authorizations, machine))
            await asyncio.sleep(0)
            endpoint.recover()
        assert refused != fresh.result() == other.result()


class TestSingleFlight:
    async def test_one_fetch(
        self, authorizations: Authorizations, machine: ClientCredentials, endpoint: TokenEndpoint
    ) -> None:
        """Twenty attempts at once ask for one token and share it."""
        endpoint.hang()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(header(authorizations, machine)) for _ in range(20)]
            await endpoint.arrived.acquire()
            endpoint.recover()
        assert len({task.result() for task in tasks}) == 1
        assert len(endpoint.forms) == 1

    async def test_one_fetch_after_refusals(
        self, authorizations: Authorizations, machine: ClientCredentials, endpoint: TokenEndpoint
    ) -> None:
        """Attempts that were refused together ask for one fresh token together."""
        await header(authorizations, machine)
        await endpoint.arrived.acquire()
        endpoint.hang()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(header(authorizations, machine, fresh=True)) for _ in range(20)]
            await endpoint.arrived.acquire()
            endpoint.recover()
        assert len({task.result() for task in tasks}) == 1
        assert len(endpoint.forms) == 2

    async def test_shared_failure(
        self, authorizations: Authorizations, machine: ClientCredentials, endpoint: TokenEndpoint
    ) -> None:
        """Attempts that waited for a fetch that failed fail with it, instead of queueing at a server in trouble."""
        endpoint.hang()
        endpoint.refuse("temporarily_unavailable", 503)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(failure(authorizations, machine)) for _ in range(20)]
            await endpoint.arrived.acquire()
            endpoint.recover()
        assert {task.result().reason for task in tasks} == {"token_refused:temporarily_unavailable"}
        assert len({id(task.result()) for task in tasks}) == 20
        assert len(endpoint.forms) == 1

    async def test_failure_is_not_kept(
        self, authorizations: Authorizations, machine: ClientCredentials, endpoint: TokenEndpoint
    ) -> None:
        """The next attempt after a failure asks again."""
        endpoint.refuse("server_error", 500)
        await failure(authorizations, machine)
        endpoint.answer = None
        assert await header(authorizations, machine)

    async def test_cancelled_while_others_wait(
        self, authorizations: Authorizations, machine: ClientCredentials, endpoint: TokenEndpoint
    ) -> None:
        """A caller that is cancelled in mid-fetch leaves the fetch to the next in line."""
        endpoint.hang()
        async with asyncio.TaskGroup() as group:
            cancelled = group.create_task(header(authorizations, machine))
            await endpoint.arrived.acquire()
            waiting = group.create_task(header(authorizations, machine))
            await asyncio.sleep(0)
            cancelled.cancel()
            await endpoint.arrived.acquire()
            endpoint.recover()
        assert cancelled.cancelled()
        assert waiting.result().startswith("Bearer ")

    async def test_deadline_while_waiting(
        self, authorizations: Authorizations, machine: ClientCredentials, endpoint: TokenEndpoint
    ) -> None:
        """Waiting for another caller's fetch counts against the caller's own deadline."""
        endpoint.hang()
        async with asyncio.TaskGroup() as group:
            first = group.create_task(header(authorizations, machine))
            await endpoint.arrived.acquire()
            late = await failure(authorizations, machine, deadline=0.01)
            endpoint.recover()
        assert late.reason == "token_endpoint_unreachable:deadline_exceeded"
        assert first.result().startswith("Bearer ")


class TestOwnerAssertion:
    async def test_request(
        self, authorizations: Authorizations, owner: OwnerAssertion, endpoint: TokenEndpoint
    ) -> None:
        """The grant is RFC 7523's, and the client proves itself beside it."""
        value = await header(authorizations, owner, subject="alice")

        form = dict(endpoint.forms[0])
        assert form.pop("assertion")
        assert form.pop("client_assertion")
        assert form == {
            "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
            "resource": RESOURCE,
            "scope": "feedback:write",
            "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        }
        assert endpoint.assertion("client_assertion", KEY).claims["sub"] == "workbench"
        assert value.startswith("Bearer ")

    async def test_assertion(
        self, authorizations: Authorizations, owner: OwnerAssertion, endpoint: TokenEndpoint
    ) -> None:
        """The relay asserts the owner for one submission, its task and its exact bytes, for at most a minute."""
        await header(authorizations, owner, subject="alice")

        token = endpoint.assertion("assertion", KEY)
        assert token.header == {"typ": "owner-assertion+jwt", "alg": "ES256", "kid": KEY.thumbprint()}
        assert token.claims.pop("jti")
        assert token.claims == {
            "iss": RELAY,
            "aud": ISSUER,
            "sub": "alice",
            "client_id": "workbench",
            "act": {"sub": RELAY},
            "iat": int(NOW),
            "exp": int(NOW) + 60,
            "authorization_details": [
                {
                    "type": "feedback_submission",
                    "submission_id": PURPOSE.submission_id,
                    "task_id": "task-1",
                    "payload_sha256": "ab" * 32,
                }
            ],
        }

    async def test_never_kept(
        self, authorizations: Authorizations, owner: OwnerAssertion, endpoint: TokenEndpoint
    ) -> None:
        """Each attempt gets a token of its own, by an assertion of its own."""
        first = await header(authorizations, owner, subject="alice")
        second = await header(authorizations, owner, subject="alice")
        assert first != second
        jtis = {
            endpoint.assertion(name, KEY, n).claims["jti"] for name in ("assertion", "client_assertion") for n in (0, 1)
        }
        assert len(jtis) == 4

    async def test_subject_unknown(
        self, authorizations: Authorizations, owner: OwnerAssertion, endpoint: TokenEndpoint
    ) -> None:
        """Without the owner's subject nobody is asserted, least of all the client."""
        refused = await failure(authorizations, owner)
        assert (refused.reason, refused.temporary) == ("subject_unknown", False)
        assert endpoint.forms == []


class TestStaticBearer:
    @pytest.fixture
    def token_file(self, tmp_path: Path) -> Path:
        return Path(private_file(tmp_path / "token", b"pilot-token~1==\n"))

    @pytest.fixture
    def static(self, token_file: Path) -> StaticBearer:
        return StaticBearer(issuer=ISSUER, client_id="workbench", token_file=str(token_file))

    @pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\n\n"])
    async def test_token(
        self, authorizations: Authorizations, static: StaticBearer, token_file: Path, end: bytes
    ) -> None:
        """The file's token goes out without the line break that editors leave."""
        private_file(token_file, b"pilot-token~1==" + end)
        assert await header(authorizations, static) == "Bearer pilot-token~1=="

    async def test_changed_file(self, authorizations: Authorizations, static: StaticBearer, token_file: Path) -> None:
        """A token that is exchanged in the file is used within a second, without a restart, and at once when the
        specialist refuses the old one."""  # noqa: D209
        await header(authorizations, static)
        private_file(token_file.with_suffix(".new"), b"pilot-token~2==\n")
        token_file.with_suffix(".new").replace(token_file)
        assert await header(authorizations, static) in {"Bearer pilot-token~1==", "Bearer pilot-token~2=="}
        assert await header(authorizations, static, fresh=True) == "Bearer pilot-token~2=="
        assert await header(authorizations, static) == "Bearer pilot-token~2=="

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"\n",
            b"two words",
            b"a\r\nX-Injected: 1",
            b"\xff\xfe",
            "tokén".encode(),
            b"=",
            b" token",
            b"a" * 16_385,
        ],
        ids=["empty", "newline", "space", "header", "not-utf8", "not-ascii", "padding", "lead", "long"],
    )
    async def test_not_a_token(
        self, authorizations: Authorizations, static: StaticBearer, token_file: Path, content: bytes
    ) -> None:
        """What cannot stand after Bearer (RFC 6750 section 2.1) never becomes a header."""
        private_file(token_file, content)
        refused = await failure(authorizations, static)
        assert (refused.reason, refused.temporary) == ("token_file_unreadable", False)
        assert str(token_file) in str(refused)
        assert "X-Injected" not in str(refused)

    async def test_open_to_others(self, authorizations: Authorizations, static: StaticBearer, token_file: Path) -> None:
        """A token that other users of the machine can read is not used."""
        private_file(token_file, b"pilot-token~1==", mode=0o644)
        assert (await failure(authorizations, static)).code == "token_file_unreadable"


class TestKeyFiles:
    async def test_kept_while_unchanged(
        self, authorizations: Authorizations, owner: OwnerAssertion, endpoint: TokenEndpoint
    ) -> None:
        """A new key in the file signs from then on."""
        await header(authorizations, owner, subject="alice")
        other = ECKey.generate_key("P-256")
        path = Path(owner.key_file)
        private_file(path.with_suffix(".new"), other.as_pem(private=True))
        path.with_suffix(".new").replace(path)

        await header(authorizations, owner, subject="alice")

        assert endpoint.assertion("assertion", KEY, 0).claims["sub"] == "alice"
        assert endpoint.assertion("assertion", other, 1).claims["sub"] == "alice"

    @pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o620, 0o660])
    async def test_open_to_others(
        self, authorizations: Authorizations, machine: ClientCredentials, endpoint: TokenEndpoint, mode: int
    ) -> None:
        """A key that the group or others may read or change is not used, and the hint says how to close it."""
        private_file(Path(machine.key_file), KEY.as_pem(private=True), mode=mode)
        refused = await failure(authorizations, machine)
        assert (refused.reason, refused.temporary) == ("key_unreadable", False)
        assert "chmod 600 client.pem" in str(refused)
        assert endpoint.forms == []

    @pytest.mark.parametrize(
        ("keeper", "reader", "mode", "usable"),
        [
            (0, 1000, 0o440, True),
            (0, 1000, 0o640, True),
            (0, 1000, 0o660, False),
            (0, 1000, 0o644, False),
            (1000, 1000, 0o400, True),
            (1000, 1000, 0o440, False),
            (0, 0, 0o600, True),
            (0, 0, 0o640, False),
            (7, 1000, 0o440, False),
        ],
    )
    def test_provided_by_root(self, keeper: int, reader: int, mode: int, usable: bool) -> None:  # noqa: FBT001
        """A secret that root provides may be read through its group, as systemd and container mounts do it."""
        status = os.stat_result((stat.S_IFREG | mode, 1, 1, 1, keeper, 0, 1, 0, 0, 0))
        with contextlib.nullcontext() if usable else pytest.raises(SecretUnusable):
            secret_files._check("key.pem", status, reader)

    async def test_missing(self, authorizations: Authorizations, machine: ClientCredentials, tmp_path: Path) -> None:
        """A key that is not there is named."""
        refused = await failure(authorizations, dataclasses.replace(machine, key_file=str(tmp_path / "gone.pem")))
        assert refused.reason == "key_unreadable"
        assert "gone.pem cannot be read: No such file or directory" in str(refused)

    async def test_not_a_file(self, authorizations: Authorizations, machine: ClientCredentials, tmp_path: Path) -> None:
        """A FIFO in the key's place is refused instead of being waited for."""
        os.mkfifo(tmp_path / "fifo", mode=0o600)
        refused = await failure(authorizations, dataclasses.replace(machine, key_file=str(tmp_path / "fifo")))
        assert "is not a file" in str(refused)

    @pytest.mark.parametrize(
        ("make", "hint"),
        [
            (lambda: b"-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n", "holds no private key"),
            (lambda: KEY.as_pem(private=False), "holds no private key"),
            (lambda: KEY.as_pem(private=True, password="secret"), "without a passphrase"),
            (lambda: ECKey.generate_key("P-384").as_pem(private=True), "neither an EC P-256 key nor"),
            (lambda: RSAKey.generate_key(1024).as_pem(private=True), "at least 2048 bits"),
            (lambda: b"x" * 65_537, "is larger than 65536 bytes"),
        ],
        ids=["garbage", "public", "encrypted", "curve", "short-rsa", "huge"],
    )
    @pytest.mark.filterwarnings("ignore:Key size should be")
    async def test_unusable(
        self,
        authorizations: Authorizations,
        machine: ClientCredentials,
        tmp_path: Path,
        make: Callable[[], bytes],
        hint: str,
    ) -> None:
        """A key that cannot be used is said to be so, with what would do, and never quoted."""
        content = make()
        path = private_file(tmp_path / "unusable.pem", content)
        refused = await failure(authorizations, dataclasses.replace(machine, key_file=path))
        assert refused.reason == "key_unreadable"
        assert hint in str(refused)
        assert content.decode()[28:40] not in str(refused)


class TestAnswers:
    @pytest.mark.parametrize(
        ("changes", "cause"),
        [
            ({"token_type": "DPoP"}, "token_type"),
            ({"token_type": None}, "token_type"),
            ({"token_type": ["Bearer"]}, "token_type"),
            ({"access_token": ""}, "access_token"),
            ({"access_token": None}, "access_token"),
            ({"access_token": 7}, "access_token"),
            ({"access_token": "a b"}, "access_token"),
            ({"access_token": "a\r\nX-Injected: 1"}, "access_token"),
            ({"access_token": "a\n"}, "access_token"),
            ({"access_token": "a" * 16_385}, "access_token"),
            ({"expires_in": 0}, "expires_in"),
            ({"expires_in": -1}, "expires_in"),
            ({"expires_in": 300.0}, "expires_in"),
            ({"expires_in": "300"}, "expires_in"),
            ({"expires_in": True}, "expires_in"),
            ({"expires_in": None}, "expires_in"),
        ],
    )
    async def test_malformed_member(
        self,
        authorizations: Authorizations,
        machine: ClientCredentials,
        endpoint: TokenEndpoint,
        changes: dict[str, object],
        cause: str,
    ) -> None:
        """A member that is not as RFC 6749 section 5.1 has it makes the answer unusable, and is named."""
        members = {"access_token": "secret-token", "token_type": "Bearer", "expires_in": 300, **changes}
        endpoint.answer = (200, json.dumps(members).encode())
        refused = await failure(authorizations, machine)
        assert refused.reason == f"malformed_token_answer:{cause}"
        assert str(refused) == refused.reason

    @pytest.mark.parametrize(
        ("body", "cause"),
        [
            (b"", "syntax"),
            (b"<html>", "syntax"),
            (b"[]", "not_an_object"),
            (b'{"access_token":"a","access_token":"b","token_type":"Bearer"}', "duplicate_key"),
            (b'{"access_token":"a","token_type":"Bearer","expires_in":NaN}', "not_finite"),
            (b'{"access_token":"a\\u0000","token_type":"Bearer"}', "nul_character"),
            (b'{"access_token":"a","token_type":"Bearer"}' + b" " * 65_536, "too_large"),
        ],
    )
    async def test_malformed_body(
        self,
        authorizations: Authorizations,
        machine: ClientCredentials,
        endpoint: TokenEndpoint,
        body: bytes,
        cause: str,
    ) -> None:
        """A body that two readers could understand differently yields no token."""
        endpoint.answer = (200, body)
        assert (await failure(authorizations, machine)).reason == f"malformed_token_answer:{cause}"

    @pytest.mark.parametrize("kind", ["Bearer", "bearer", "BEARER"])
    async def test_token_type_in_any_case(
        self, authorizations: Authorizations, machine: ClientCredentials, endpoint: TokenEndpoint, kind: str
    ) -> None:
        """The token type is compared without case (RFC 6749 section 5.1)."""
        endpoint.answer = (200, json.dumps({"access_token": "t", "token_type": kind, "expires_in": 9}).encode())
        assert await header(authorizations, machine) == "Bearer t"

    @pytest.mark.parametrize(
        ("status", "error", "temporary"),
        [
            (400, "invalid_grant", False),
            (401, "invalid_client", False),
            (400, "unauthorized_client", False),
            (400, "invalid_target", False),
            (400, "slow_down", True),
            (400, "temporarily_unavailable", True),
            (503, "server_error", True),
            (429, "invalid_request", True),
        ],
    )
    async def test_refused(
        self,
        authorizations: Authorizations,
        owner: OwnerAssertion,
        endpoint: TokenEndpoint,
        status: int,
        error: str,
        temporary: bool,  # noqa: FBT001
    ) -> None:
        """The server's error code is kept, its description is not, and the kind says whether it may pass."""
        endpoint.refuse(error, status)
        with pytest.raises(CredentialFailure) as caught:
            await header(authorizations, owner, subject="alice")
        refused = caught.value
        assert (refused.code, refused.reason) == ("token_refused", f"token_refused:{error}")
        assert refused.temporary is temporary
        assert "quoted-secret" not in str(refused)
        assert "alice" not in str(refused)

    @pytest.mark.parametrize("error", ["", "a" * 65, "two words", "invalid\ngrant", "Ungültig", 7, None, ["x"]])
    async def test_odd_error_code(
        self, authorizations: Authorizations, machine: ClientCredentials, endpoint: TokenEndpoint, error: object
    ) -> None:
        """An error that is no short code is not repeated: only the status is."""
        endpoint.refuse(error)
        assert (await failure(authorizations, machine)).reason == "token_endpoint_failed:400"

    @pytest.mark.parametrize(
        ("status", "temporary"), [(500, True), (503, True), (429, True), (408, True), (404, False), (201, False)]
    )
    async def test_other_status(
        self,
        authorizations: Authorizations,
        machine: ClientCredentials,
        endpoint: TokenEndpoint,
        status: int,
        temporary: bool,  # noqa: FBT001
    ) -> None:
        """Anything but 200 without an OAuth error is a failure by its status, even with a token in it."""
        endpoint.answer = (status, b'{"access_token":"t","token_type":"Bearer"}')
        refused = await failure(authorizations, machine)
        assert (refused.reason, refused.temporary) == (f"token_endpoint_failed:{status}", temporary)

    async def test_redirect(
        self, authorizations: Authorizations, machine: ClientCredentials, endpoint: TokenEndpoint
    ) -> None:
        """A redirect is not followed: no assertion goes to where an answer points."""
        async with TokenEndpoint() as elsewhere:
            endpoint.answer = (307, b"")
            endpoint.extra_headers = {"Location": elsewhere.url}
            assert (await failure(authorizations, machine)).reason == "token_endpoint_failed:307"
            assert elsewhere.forms == []


class TestUnreachable:
    async def test_nobody_listens(self, authorizations: Authorizations, machine: ClientCredentials) -> None:
        """A token endpoint that is down is a temporary failure with the egress's reason."""
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        gone = dataclasses.replace(machine, token_endpoint=f"http://127.0.0.1:{port}/token")
        refused = await failure(authorizations, gone)
        assert (refused.reason, refused.temporary) == ("token_endpoint_unreachable:connect_failed", True)

    @pytest.mark.parametrize(
        ("endpoint_url", "kind"),
        [("https://10.0.0.1/token", "address_refused"), ("http://login.example.org/token", "url_refused")],
    )
    async def test_forbidden(
        self, clock: TurnableClock, machine: ClientCredentials, endpoint_url: str, kind: str
    ) -> None:
        """A token endpoint that must not be called stays so until somebody acts."""
        elsewhere = dataclasses.replace(machine, token_endpoint=endpoint_url)
        async with Egress(EgressPolicy()) as egress:
            refused = await failure(Authorizations(egress, relay_issuer=RELAY, now=clock.unix), elsewhere)
        assert (refused.reason, refused.temporary) == (f"token_endpoint_unreachable:{kind}", False)

    async def test_silent(self, authorizations: Authorizations, owner: OwnerAssertion, endpoint: TokenEndpoint) -> None:
        """A token endpoint that does not answer costs the deadline and no more."""
        endpoint.hang()
        with pytest.raises(CredentialFailure) as caught:
            await header(authorizations, owner, subject="alice", deadline=0.05)
        assert caught.value.reason == "token_endpoint_unreachable:deadline_exceeded"


async def test_nothing_shows(authorizations: Authorizations, machine: ClientCredentials) -> None:
    """No representation of what holds tokens or keys shows them."""
    token = (await header(authorizations, machine)).removeprefix("Bearer ")
    shown = repr(authorizations) + repr(vars(authorizations)) + repr(AccessToken("secret-token", 0.0))
    assert token not in shown
    assert "secret-token" not in shown

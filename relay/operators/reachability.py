"""Whether everything that a configuration points at can be reached, and answers as what it is meant to be.

Asked through the same door as in earnest, under the same policy. Nothing that is sent carries a credential, and none
of it can have an effect.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Final, Literal

from registry import strict_json
from registry.credentials.client_certificates import ClientCertificates
from registry.credentials.secret_files import SecretUnusable
from registry.egress import Egress, EgressFailure, Exchange
from registry.model import CertifiedCredential, StaticBearer
from relay.clock import SystemClock
from relay.config import Config
from relay.config.sections import Issuer
from relay.identity.jwks import KeySet
from relay.identity.key_source import FetchFailed, KeySource
from relay.identity.model import ALGORITHMS, IssuerPolicy
from relay.operators.reachability_advice import Advice, advice_on
from relay.web.console import configured
from relay.web.console.sign_in.model import Registration, SignInFailed
from relay.web.console.sign_in.provider import Providers

Kind = Literal["issuer", "token_endpoint", "agent", "console"]

DEADLINE_SECONDS: Final = 10.0
AT_ONCE: Final = 16

_ERROR: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_NO_GRANT: Final = b"grant_type=urn%3Afeedback-relay%3Acheck"
"""A grant that no server has, without a client: there is nothing in it that could be granted."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found at ``url``, which the configuration names at ``named``.

    ``problem`` is a short code of what would fail, None: nothing. ``told`` is a sentence for people, ``advice`` what to
    change.
    """

    kind: Kind
    url: str
    named: str
    problem: str | None
    told: str
    advice: str | None


@dataclass(frozen=True, slots=True)
class Probe:
    """One thing to look at. ``look`` says what it found, or raises what `advice_on` knows."""

    kind: Kind
    url: str
    named: str
    look: Callable[[], Awaitable[str]]

    async def run(self) -> Finding:
        try:
            told = await self.look()
        except (EgressFailure, FetchFailed, SecretUnusable, Unfit) as failure:
            problem = _problem(failure)
            return Finding(self.kind, self.url, self.named, problem.code, problem.told, problem.advice)
        return Finding(self.kind, self.url, self.named, None, told, None)


class Unfit(Exception):  # noqa: N818 - reads as what it says
    """Something answers, but not as it should."""

    def __init__(self, problem: str, detail: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.detail = detail


def _problem(failure: EgressFailure | FetchFailed | SecretUnusable | Unfit) -> Advice:
    match failure:
        case EgressFailure():
            return advice_on(failure.kind, failure.detail)
        case SecretUnusable():
            return advice_on("client_certificate_unusable", str(failure))
        case _:
            return advice_on(failure.problem, failure.detail)


def probes(config: Config, egress: Egress) -> list[Probe]:
    """Every issuer, token endpoint, opted-in agent, and the console's issuer, each address once."""
    found: dict[tuple[Kind, str], Probe] = {}
    for probe in (*_of_issuers(config, egress), *_of_agents(config, egress), *_of_console(config, egress)):
        found.setdefault((probe.kind, probe.url), probe)
    return list(found.values())


async def look_at_all(config: Config, egress: Egress, done: Callable[[Finding], None]) -> list[Finding]:
    """Run all probes side by side. ``done`` is told of each finding as it comes; the list is in their own order."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def run(probe: Probe) -> Finding:
        async with gate:
            finding = await probe.run()
        done(finding)
        return finding

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run(probe)) for probe in probes(config, egress)]
    return [task.result() for task in tasks]


def _of_issuers(config: Config, egress: Egress) -> Iterator[Probe]:
    for issuer in config.identity.issuers:
        look = partial(_look_at_issuer, egress, issuer)
        yield Probe("issuer", issuer.issuer, f"[[identity.issuers]] {issuer.issuer}", look)


def _of_agents(config: Config, egress: Egress) -> Iterator[Probe]:
    """Agents that take feedback; to others nothing is ever sent."""
    certificates = ClientCertificates(egress.client_identity)
    for agent in config.agents:
        if agent.protocol is None:
            continue
        for number, credential in enumerate(agent.credentials, start=1):
            if not isinstance(credential, StaticBearer):
                url = credential.token_endpoint
                named = f"[[agents]] {agent.agent}, credentials no. {number}, token_endpoint"
                yield Probe("token_endpoint", url, named, partial(_ask, egress, certificates, credential, url))
        look = partial(_shake_hands, egress, certificates, agent.credentials[0], agent.origin)
        yield Probe("agent", agent.origin, f"[[agents]] {agent.agent}, origin", look)


def _of_console(config: Config, egress: Egress) -> Iterator[Probe]:
    if config.console is not None:
        ours = configured.registration(config, config.console)
        yield Probe("console", ours.issuer, "[console] issuer", partial(_look_at_sign_in, egress, ours))


async def _look_at_sign_in(egress: Egress, ours: Registration) -> str:
    try:
        provider = await Providers(ours, egress, SystemClock()).look_up()
    except SignInFailed as failed:
        raise Unfit(failed.reason) from None
    return f"people sign in at {provider.authorization_endpoint}"


async def _look_at_issuer(egress: Egress, issuer: Issuer) -> str:
    policy = IssuerPolicy(
        issuer=issuer.issuer, audience=issuer.audience, algorithms=issuer.algorithms, jwks_uri=issuer.jwks_uri
    )
    keys = await KeySource(policy, egress).fetch(DEADLINE_SECONDS)
    fitting = _fitting(keys, issuer)
    if not fitting:
        raise Unfit("no_key_for_algorithms", ", ".join(issuer.algorithms))
    return f"keys that fit its algorithms: {fitting} of {len(keys.keys) + keys.ignored}"


def _fitting(keys: KeySet, issuer: Issuer) -> int:
    return sum(
        any(
            (key.kty, key.crv) == ALGORITHMS[algorithm] and key.algorithm in {None, algorithm}
            for algorithm in issuer.algorithms
        )
        for key in keys.keys.values()
    )


async def _ask(egress: Egress, certificates: ClientCertificates, credential: CertifiedCredential, url: str) -> str:
    """A request that a token endpoint refuses (RFC 6749 section 5.2): that it does so is the proof."""
    answer = await egress.exchange(
        "POST",
        url,
        headers={"Content-Type": "application/x-www-form-urlencoded"},
        body=_NO_GRANT,
        deadline=DEADLINE_SECONDS,
        client_identity=await certificates.of(credential),
    )
    error = _oauth_error(answer)
    if error is None or not HTTPStatus.BAD_REQUEST <= answer.status < HTTPStatus.INTERNAL_SERVER_ERROR:
        raise Unfit("redirected" if 300 <= answer.status < 400 else "not_a_token_endpoint", f"status {answer.status}")  # noqa: PLR2004 - redirections
    return f"refuses what has no grant, as it should: {error}"


def _oauth_error(answer: Exchange) -> str | None:
    try:
        members = strict_json.loads(answer.body)
    except strict_json.NotStrictJson:
        return None
    error = members.get("error") if isinstance(members, dict) else None
    # What is shown on a terminal must look like a code.
    return error if isinstance(error, str) and _ERROR.fullmatch(error) else None


async def _shake_hands(
    egress: Egress, certificates: ClientCertificates, credential: CertifiedCredential, origin: str
) -> str:
    """A HEAD of the root, whose answer matters to nobody: to have one takes the address, TLS and HTTP."""
    answer = await egress.exchange(
        "HEAD", f"{origin}/", headers={}, deadline=DEADLINE_SECONDS, client_identity=await certificates.of(credential)
    )
    return f"answers over TLS, with status {answer.status}"

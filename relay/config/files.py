"""The files that a configuration names: whether each is there, private, and what it should be."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from registry.credentials.assertions import signing_key
from registry.credentials.authorizations import static_token
from registry.credentials.client_certificates import ClientCertificates
from registry.credentials.proofs import proof_key
from registry.credentials.secret_files import SecretFiles, SecretUnusable, client_secret
from registry.dialling import TrustStore
from registry.egress import Egress, EgressPolicy
from registry.model import Credential, StaticBearer
from relay.config.model import Config
from relay.errors import StartupError


async def require_files(config: Config) -> None:
    """Raise StartupError with a line for each file that cannot be used.

    The two keys of the owners are not among them: for an empty database they are made.
    """
    unusable = [problem async for problem in _unusable(config)]
    if unusable:
        raise StartupError("\n".join(unusable))


async def _unusable(config: Config) -> AsyncIterator[str]:
    try:
        config.database_url()
    except StartupError as error:
        yield str(error)
    try:
        TrustStore.build(config.egress_policy().ca_file)
    except OSError as error:  # a certificate that cannot be read raises one too
        yield f"[egress] ca_file: {config.egress.ca_file} cannot be used ({error.strerror or error})"
    async for problem in _unusable_of_console(config):
        yield problem
    async for problem in _unusable_of_telemetry(config):
        yield problem
    for agent in config.agents:
        for number, credential in enumerate(agent.credentials, start=1):
            async for problem in _unusable_of(credential):
                yield f"[[agents]] {agent.agent}, credentials no. {number}: {problem}"


async def _unusable_of_console(config: Config) -> AsyncIterator[str]:
    if config.console is None:
        return
    readings: tuple[tuple[str, Path | None, SecretFiles[Any]], ...] = (
        ("key_file", config.console.key_file, SecretFiles(signing_key)),
        ("client_secret_file", config.console.client_secret_file, SecretFiles(client_secret)),
    )
    for key, path, files in readings:
        try:
            if path is not None:
                await files.get(str(path))
        except SecretUnusable as error:
            yield f"[console] {key}: {error}"


async def _unusable_of_telemetry(config: Config) -> AsyncIterator[str]:
    telemetry = config.telemetry
    try:
        if telemetry.token_file is not None:
            await SecretFiles(static_token).get(str(telemetry.token_file))
    except SecretUnusable as error:
        yield f"[telemetry] token_file: {error}"
    try:
        if telemetry.ca_file is not None:
            TrustStore.build(str(telemetry.ca_file))
    except OSError as error:
        yield f"[telemetry] ca_file: {telemetry.ca_file} cannot be used ({error.strerror or error})"


async def _unusable_of(credential: Credential) -> AsyncIterator[str]:
    for read in _readings(credential):
        try:
            await read()
        except SecretUnusable as error:
            yield str(error)


def _readings(credential: Credential) -> Iterator[Callable[[], Awaitable[object]]]:
    """Reads each file of a credential as an attempt does."""
    if isinstance(credential, StaticBearer):
        yield partial(SecretFiles(static_token).get, credential.token_file)
    else:
        yield partial(SecretFiles(signing_key).get, credential.key_file)
        if credential.dpop_key_file is not None:
            yield partial(SecretFiles(proof_key).get, credential.dpop_key_file)
    yield partial(ClientCertificates(Egress(EgressPolicy()).client_identity).of, credential)

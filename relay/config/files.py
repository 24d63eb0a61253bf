"""The files that a configuration names: whether each is there, private, and what it should be."""

from collections.abc import AsyncIterator

from registry.credentials.assertions import signing_key
from registry.credentials.authorizations import static_token
from registry.credentials.secret_files import SecretFiles, SecretUnusable
from registry.dialling import TrustStore
from registry.model import Credential
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
    for agent in config.agents:
        for number, credential in enumerate(agent.credentials, start=1):
            try:
                await _read(credential)
            except SecretUnusable as error:
                yield f"[[agents]] {agent.id}, credentials no. {number}: {error}"


async def _read(credential: Credential) -> None:
    if credential.mode == "static_bearer":
        await SecretFiles(static_token).get(credential.token_file)
    else:
        await SecretFiles(signing_key).get(credential.key_file)

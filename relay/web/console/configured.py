"""The console that a configuration states."""

from relay.config import Config
from relay.config.sections import Console
from relay.web.console.sessions.model import Lifetime
from relay.web.console.sign_in.model import Registration


def registration(config: Config, console: Console) -> Registration:
    """What the console is at its issuer, by ``[console]`` and what ``[operators]`` have to show."""
    return Registration(
        issuer=console.issuer,
        client_id=console.client_id,
        redirect_uri=f"{config.server.public_url}/console/callback",
        scope=" ".join(console.scopes),
        resource=console.resource,
        secret_file=None if console.client_secret_file is None else str(console.client_secret_file),
        key_file=None if console.key_file is None else str(console.key_file),
        authorization_endpoint=console.authorization_endpoint,
        token_endpoint=console.token_endpoint,
        max_age_seconds=config.operators.max_age_seconds,
        acr_values=config.operators.acr_values,
    )


def lifetime(console: Console) -> Lifetime:
    return Lifetime(idle=console.idle_minutes * 60_000, absolute=console.absolute_hours * 3_600_000)

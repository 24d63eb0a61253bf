"""From ``[telemetry]`` to what records traces. Nothing of OpenTelemetry is loaded where no collector is configured."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from registry.credentials.authorizations import static_token
from registry.credentials.secret_files import SecretFiles, SecretUnusable
from relay.config.sections import Telemetry
from relay.errors import StartupError
from relay.telemetry.spans import Tracing


@asynccontextmanager
async def tracing(configured: Telemetry) -> AsyncIterator[Tracing | None]:
    """What is recorded goes out until the block ends, and what is queued then still does. None: nothing is recorded."""
    if configured.collector is None:
        yield None
        return
    from relay.telemetry.collector import Address, Collector  # noqa: PLC0415 - an extra, and slow to load

    ca_file = None if configured.ca_file is None else str(configured.ca_file)
    collector = Collector(Address(url=configured.collector, ca_file=ca_file, token=await _token(configured)))
    try:
        yield Tracing(collector.record, collector.tell, ratio=configured.sample_ratio)
    finally:
        await collector.close()


async def _token(configured: Telemetry) -> str | None:
    if configured.token_file is None:
        return None
    try:
        return await SecretFiles(static_token).get(str(configured.token_file))
    except SecretUnusable as error:
        raise StartupError(f"[telemetry] token_file: {error}") from None

"""A process from its start to its orderly end: what runs in the background, the gateway's door, and the signals."""

import asyncio
import gc
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext

import structlog
from aiohttp import web

from relay.app import Relay, assembled, build_app, build_watch
from relay.config import Config
from relay.delivery.wakeup import listen
from relay.http.observation import Observation
from relay.http.server import Runner
from relay.redaction import outline
from relay.telemetry import configure_logging

log = structlog.get_logger(__name__)

CLAIM_SECONDS = 5.0
"""How long a process that ends waits for a claim that it has asked the database for."""


@asynccontextmanager
async def running(relay: Relay, *, worker: bool) -> AsyncIterator[None]:
    """The background of a process. A part that dies ends the block, so that nothing dies unnoticed."""
    async with asyncio.TaskGroup() as group:
        parts = (relay.settlements, relay.acceptance, relay.courier, relay.asking, relay.feed, relay.counts)
        tasks = [group.create_task(part.run()) for part in parts]
        tasks.append(group.create_task(relay.keys.load()))
        drainers = _drainers(relay, group, worker=worker)
        await asyncio.sleep(0)  # let the courier open its task group before anything asks it to carry
        try:
            yield
        finally:
            # A claim under way is waited for: cut off, its rows would wait out their lease as if they had been sent.
            relay.worker.stop()
            if worker:
                await asyncio.wait(drainers[:1], timeout=CLAIM_SECONDS)
            for task in drainers:
                task.cancel()
            await relay.courier.drain(relay.config.server.shutdown_grace_seconds)
            for task in tasks:
                task.cancel()


def _drainers(relay: Relay, group: asyncio.TaskGroup, *, worker: bool) -> list[asyncio.Task[None]]:
    """The worker first, then what only ever waits."""
    if not worker:
        return [group.create_task(_keep_registry_fresh(relay))]
    loops = [relay.worker.run(), relay.parking.run(), relay.housekeeping.run(), relay.job_runner.run()]
    if relay.reconciler is not None:
        loops.append(relay.reconciler.run())
    if relay.db.dialect == "postgresql":
        loops.append(listen(relay.db.url, relay.worker.wake))
    return [group.create_task(loop) for loop in loops]


async def _keep_registry_fresh(relay: Relay) -> None:
    """A gateway without a worker still follows what operators decide; a stale view is found out at the commit."""
    while True:
        await asyncio.sleep(relay.config.delivery.poll_seconds)
        try:
            await relay.registry.refresh()
        except Exception as error:  # noqa: BLE001 - the database's absence shows elsewhere
            log.warning("registry_not_refreshed", error=type(error).__name__)


async def serve(config: Config, *, worker: bool) -> int:
    """Run the gateway until it is told to stop; 0 after an orderly end, 1 if a part of it died."""
    return await _run(config, listening, worker=worker)


async def work(config: Config) -> int:
    """Run a worker until it is told to stop; 0 after an orderly end, 1 if a part of it died."""
    return await _run(config, watched if config.telemetry.worker_port else nullcontext, worker=True)


async def _run(config: Config, door: Callable[[Relay], AbstractAsyncContextManager[object]], *, worker: bool) -> int:
    configure_logging(config.logging.level, config.logging.format)
    stop = _stop_event()
    async with assembled(config) as relay:
        try:
            # What is here now stays until the end: the collector need not look through it again and again.
            gc.collect()
            gc.freeze()
            async with running(relay, worker=worker), door(relay):
                log.info("running", worker=worker)
                await stop.wait()
                log.info("stopping")
                relay.worker.stop()  # claims nothing more, while what is under way finishes
        except ExceptionGroup as failures:
            if all(isinstance(failure, OSError) for failure in failures.exceptions):
                raise  # an address in use is for whoever started us
            for failure in failures.exceptions:
                log.error("part_died", **outline(failure))
            return 1
    return 0


@asynccontextmanager
async def listening(relay: Relay) -> AsyncIterator[None]:
    """The gateway's door, open within the block."""
    server = relay.config.server
    observation = Observation(relay.metrics, relay.clock, relay.tracing)
    runner = Runner(build_app(relay), unrouted=observation.unrouted, shutdown_timeout=server.shutdown_grace_seconds)
    await runner.setup()
    try:
        await web.TCPSite(runner, server.host, server.port).start()
        log.info("serving", addresses=[f"{host}:{port}" for host, port, *_ in runner.addresses])
        yield
    finally:
        # At the same time, so that one grace is enough: who waits for an acknowledgement waits for its attempt.
        await asyncio.gather(runner.cleanup(), relay.courier.drain(server.shutdown_grace_seconds))


@asynccontextmanager
async def watched(relay: Relay) -> AsyncIterator[None]:
    """A worker's only door, open within the block: for those who watch it."""
    telemetry = relay.config.telemetry
    runner = Runner(build_watch(relay), shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, telemetry.worker_host, telemetry.worker_port).start()
        log.info("watched", addresses=[f"{host}:{port}" for host, port, *_ in runner.addresses])
        yield
    finally:
        await runner.cleanup()


def _stop_event() -> asyncio.Event:
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    return stop

"""The composition root: every part is made here, once, and handed what it needs. Reads from top to bottom."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal

import msgspec
import structlog
from aiohttp import web

from registry.credentials import Authorizations
from registry.egress import Egress
from registry.registrations import Registrations
from relay import api, feedback, health, provenance
from relay import web as pages
from relay.clock import Clock, SystemClock
from relay.config import Config
from relay.delivery.asking import Asking
from relay.delivery.attempt import Attempts
from relay.delivery.courier import Courier
from relay.delivery.exchanges import Exchanges
from relay.delivery.parking import Parking
from relay.delivery.reconcile.reconciler import Reconciler
from relay.delivery.reconcile.store import Checks
from relay.delivery.schedule import Schedule, schedule
from relay.delivery.settling import Settlements
from relay.delivery.store import BreakerLimits, Deliveries
from relay.delivery.traces import DeliveryTraces
from relay.delivery.worker import Worker
from relay.feedback.acceptance import Acceptance
from relay.feedback.feed import Feed
from relay.feedback.store import Submissions
from relay.feedback.submitting import Submitting
from relay.feedback.targets import Targets
from relay.health import Health
from relay.http import guard, problems
from relay.http.cors import SharedOrigins
from relay.http.cursors import Cursors
from relay.http.events import end_streams_with
from relay.http.forwarding import TrustedProxies
from relay.http.limits import MAX_BODY_BYTES
from relay.http.observation import Observation
from relay.identity.authentication import ADMIT, ON_ARRIVAL, OPERATORS, VERIFIER
from relay.identity.keys import Fetched, KeySets
from relay.identity.model import IssuerPolicy
from relay.identity.operators import Operators
from relay.identity.owner_keys import OwnerKeys
from relay.identity.owners import Owners
from relay.identity.tokens import Verifier
from relay.limits.admission import Admission, Quotas
from relay.limits.counts import Counts
from relay.operators import actors
from relay.operators.agents import Agents
from relay.operators.agents import routes as agents
from relay.operators.agents.proposing import Proposals
from relay.operators.agents.views import Views
from relay.operators.analytics import routes as analytics
from relay.operators.analytics.store import Analytics
from relay.operators.audit_trail import routes as audit_trail
from relay.operators.audit_trail.store import AuditTrail
from relay.operators.export import routes as export
from relay.operators.export.exporting import Exports
from relay.operators.jobs import routes as jobs
from relay.operators.jobs.asking import Bulk
from relay.operators.jobs.runner import Runner
from relay.operators.jobs.store import Jobs
from relay.operators.paging import CURSORS
from relay.operators.standing import Standing
from relay.operators.submissions import routes as tenant_submissions
from relay.operators.submissions.actions import Actions
from relay.operators.submissions.store import Submissions as TenantSubmissions
from relay.operators.tasks import routes as odd_tasks
from relay.operators.tasks.store import OddTasks
from relay.provenance.recording import ClientPolicy, Recorder
from relay.provenance.store import Tasks
from relay.retention.configured import policy
from relay.retention.housekeeping import ACTOR, Housekeeping
from relay.retention.pruning import Pruning
from relay.retention.sweeping import Sweep
from relay.storage import schema
from relay.storage.engine import Database
from relay.telemetry import Metrics
from relay.telemetry.configured import tracing as recording
from relay.telemetry.spans import Tracing
from relay.web.console import configured
from relay.web.console.console import Console

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Relay:
    """The parts of one process, made and connected, nothing running yet."""

    config: Config
    clock: Clock
    metrics: Metrics
    db: Database
    egress: Egress
    cursors: Cursors
    counts: Counts
    admission: Admission
    owners: Owners
    keys: KeySets
    registry: Registrations
    settlements: Settlements
    courier: Courier
    asking: Asking
    acceptance: Acceptance
    deliveries: Deliveries
    feed: Feed
    parking: Parking
    jobs: Jobs
    job_runner: Runner
    standing: Standing
    worker: Worker
    housekeeping: Housekeeping
    reconciler: Reconciler | None
    console: Console | None
    tracing: Tracing | None


@asynccontextmanager
async def assembled(config: Config, *, clock: Clock | None = None) -> AsyncIterator[Relay]:
    """Open the database and the egress, bring the registry in line with the configuration, and make the parts."""
    clock = clock or SystemClock()
    metrics = Metrics()
    db = Database.open(config.database_url(), pool_size=config.database.pool_size)
    try:
        await _bring_up(db, config)
        owner_keys = await OwnerKeys.load(db, **msgspec.structs.asdict(config.owners))
        await Agents(db).seed(config.agents)
        async with Egress(config.egress_policy()) as egress, recording(config.telemetry) as tracing:
            relay = await _make(config, clock, metrics, tracing, db, owner_keys, egress)
            try:
                yield relay
            finally:
                await relay.keys.close()
    finally:
        await db.close()


async def _bring_up(db: Database, config: Config) -> None:
    """The newest schema: made on the way, or asked for."""
    if not config.database.auto_migrate:
        await schema.require_current(db)
        return
    before = await schema.status(db)
    after = await schema.migrate(db)
    if before.pending:
        log.info("database_migrated", before=before.current, now=after.current)


async def _make(
    config: Config,
    clock: Clock,
    metrics: Metrics,
    tracing: Tracing | None,
    db: Database,
    owner_keys: OwnerKeys,
    egress: Egress,
) -> Relay:
    limits = config.delivery
    waits = schedule(limits.schedule)
    checks = schedule(limits.reconcile.schedule) if limits.reconcile.enabled else None
    registry = Registrations(db.read)
    await registry.reload()
    owners = Owners(db, owner_keys)
    deliveries = Deliveries(db, limits.lease_seconds, BreakerLimits(**msgspec.structs.asdict(limits.breaker)))
    settlements = Settlements(
        deliveries,
        registry,
        waits,
        patience_seconds=limits.lease_seconds,
        checks=checks,
        observe=lambda agent, state: metrics.settled(agent=agent, state=state),
    )
    authorizations = Authorizations(egress, relay_issuer=config.server.public_url, now=clock.unix)
    exchanges = Exchanges(egress, authorizations, owners, clock)
    courier = _courier(config, clock, metrics, tracing, db, exchanges, settlements, registry)
    keys = KeySets(_issuers(config), egress, clock, observe=lambda f: metrics.jwks_fetch(_fetch_outcome(f)))
    feed = Feed(db, poll_seconds=limits.poll_seconds)
    worker = Worker(deliveries, courier, settlements, registry, clock, poll_seconds=limits.poll_seconds)
    courier.on_done(feed.wake)
    reconciler = None
    if checks is not None:
        reconciler = _reconciler(config, clock, metrics, db, exchanges, registry, checks)
        reconciler.on_done(feed.wake)
        reconciler.on_done(worker.wake)
    counts = Counts(db, clock)
    jobs = Jobs(db)
    console = _console(config, clock, db, egress, keys, owners, owner_keys)
    return Relay(
        config=config,
        clock=clock,
        metrics=metrics,
        db=db,
        egress=egress,
        cursors=Cursors(*owner_keys.derive(b"cursors")),
        counts=counts,
        admission=_admission(config, counts, owner_keys),
        owners=owners,
        keys=keys,
        registry=registry,
        settlements=settlements,
        courier=courier,
        asking=Asking(deliveries, courier, owners, registry, clock),
        acceptance=Acceptance(
            db, registry, courier, waits, clock, lease_seconds=limits.lease_seconds, capacity=limits.accept_queue
        ),
        deliveries=deliveries,
        feed=feed,
        parking=Parking(db, poll_seconds=limits.poll_seconds),
        jobs=jobs,
        job_runner=Runner(db, jobs, poll_seconds=limits.poll_seconds),
        standing=Standing(db, registry, keys, clock, metrics),
        worker=worker,
        reconciler=reconciler,
        housekeeping=_housekeeping(config, db, feed, console),
        console=console,
        tracing=tracing,
    )


def _courier(
    config: Config,
    clock: Clock,
    metrics: Metrics,
    tracing: Tracing | None,
    db: Database,
    exchanges: Exchanges,
    settlements: Settlements,
    registry: Registrations,
) -> Courier:
    limits = config.delivery
    return Courier(
        Attempts(exchanges, clock, deadline_seconds=limits.deadline_seconds),
        settlements,
        registry,
        clock,
        metrics,
        in_flight_per_agent=limits.in_flight_per_agent,
        deadline_seconds=limits.deadline_seconds,
        lease_seconds=limits.lease_seconds,
        traces=None if tracing is None else DeliveryTraces(tracing, db, clock, comments=config.telemetry.comments),
    )


def _reconciler(
    config: Config,
    clock: Clock,
    metrics: Metrics,
    db: Database,
    exchanges: Exchanges,
    registry: Registrations,
    checks: Schedule,
) -> Reconciler:
    limits = config.delivery
    return Reconciler(
        Checks(db, deadline_seconds=limits.deadline_seconds),
        exchanges,
        registry,
        clock,
        metrics,
        checks,
        deadline_seconds=limits.deadline_seconds,
        poll_seconds=limits.poll_seconds,
    )


def _admission(config: Config, counts: Counts, owner_keys: OwnerKeys) -> Admission:
    return Admission(
        counts,
        Quotas(**msgspec.structs.asdict(config.limits)),
        TrustedProxies(config.trusted_proxies()),
        key=owner_keys.derive(b"rate limits")[0],
        exempt=api.UNCOUNTED,
    )


def _housekeeping(config: Config, db: Database, feed: Feed, console: Console | None) -> Housekeeping:
    return Housekeeping(
        Sweep(db, policy(config.retention), by=ACTOR),
        Pruning(db, days=config.retention.events_days),
        every_seconds=config.retention.sweep_seconds,
        on_change=feed.wake,
        also={} if console is None else {"console_sessions": console.sessions.prune},
    )


def build_app(relay: Relay) -> web.Application:
    """The gateway's HTTP application."""
    config = relay.config
    origins = SharedOrigins(config.server.cors_origins)
    observation = Observation(relay.metrics, relay.clock, relay.tracing)
    app = web.Application(
        middlewares=[
            observation.middleware,
            origins.middleware,
            problems.middleware,
            relay.admission.middleware,
            guard.middleware,
        ]
    )
    app.on_response_prepare.extend([origins.mark, relay.admission.mark])
    app[MAX_BODY_BYTES] = config.server.max_body_bytes
    app[ADMIT] = relay.admission.admit
    app[OPERATORS] = Operators(
        clock=relay.clock,
        admin_issuers=config.registry.admin_issuers,
        max_age_seconds=config.operators.max_age_seconds,
        acr_values=config.operators.acr_values,
    )
    app[ON_ARRIVAL] = relay.asking.arrived
    app[VERIFIER] = Verifier(_issuers(config), relay.keys, relay.clock)
    app[health.HEALTH] = _health(relay)

    submissions = Submissions(relay.db)
    targets = Targets(submissions, relay.registry, policy(config.retention))
    app[provenance.RECORDER] = Recorder(Tasks(relay.db), relay.owners, relay.registry, _clients(config))
    app[actors.OPERATOR_OWNERS] = relay.owners
    app[agents.AGENTS] = Agents(
        relay.db, relay.parking, four_eyes=config.registry.four_eyes, most_batches=agents.BATCHES_WHILE_ASKED
    )
    app[agents.VIEWS] = Views(relay.db, config.agents)
    app[agents.PROPOSALS] = Proposals(relay.db, config)
    app[agents.LIST_CURSORS] = relay.cursors
    end_streams_with(app)
    app[feedback.CLOCK] = relay.clock
    app[feedback.FEED] = relay.feed
    app[feedback.OWNERS] = relay.owners
    app[feedback.CURSORS] = relay.cursors
    app[feedback.SUBMISSIONS] = submissions
    app[feedback.TARGETS] = targets
    app[feedback.SUBMITTING] = Submitting(
        relay.acceptance,
        submissions,
        relay.deliveries,
        relay.courier,
        relay.asking,
        relay.owners,
        relay.registry,
        targets,
        relay.metrics,
    )
    _let_operate(app, relay)
    app[pages.WIDGET] = pages.load()
    app.add_routes(api.ROUTES)
    if relay.console is not None:
        relay.console.set_up(app)
    return app


def build_watch(relay: Relay) -> web.Application:
    """What a worker answers: how it fares, and nothing else."""
    app = web.Application(middlewares=[problems.middleware])
    app[health.HEALTH] = _health(relay)
    app.add_routes(health.routes)
    return app


def _health(relay: Relay) -> Health:
    return Health(relay.db, relay.keys, relay.metrics, relay.standing, relay.acceptance)


def _let_operate(app: web.Application, relay: Relay) -> None:
    """What operators do to the submissions of their tenant."""

    def changed() -> None:
        relay.worker.wake()
        relay.feed.wake()

    app[CURSORS] = relay.cursors
    app[tenant_submissions.SUBMISSIONS] = TenantSubmissions(relay.db)
    app[tenant_submissions.ACTIONS] = Actions(relay.db, changed)
    app[jobs.JOBS] = relay.jobs
    app[jobs.BULK] = Bulk(relay.db, relay.jobs, relay.job_runner.wake)
    app[odd_tasks.ODD_TASKS] = OddTasks(relay.db, long_running_seconds=relay.config.operators.long_running_seconds)
    app[audit_trail.AUDIT_TRAIL] = AuditTrail(relay.db)
    app[analytics.ANALYTICS] = Analytics(relay.db)
    app[export.EXPORTS] = Exports(relay.db, app[tenant_submissions.SUBMISSIONS])


def _console(
    config: Config,
    clock: Clock,
    db: Database,
    egress: Egress,
    keys: KeySets,
    owners: Owners,
    owner_keys: OwnerKeys,
) -> Console | None:
    """The operators' console, where there is one."""
    section = config.console
    if section is None:
        return None
    return Console.of(
        configured.registration(config, section),
        configured.lifetime(section),
        policy=next(policy for policy in _issuers(config) if policy.issuer == section.issuer),
        public_url=config.server.public_url,
        db=db,
        egress=egress,
        keys=keys,
        owners=owners,
        owner_keys=owner_keys,
        clock=clock,
    )


def _issuers(config: Config) -> list[IssuerPolicy]:
    return [
        IssuerPolicy(
            issuer=i.issuer,
            audience=i.audience,
            algorithms=i.algorithms,
            client_claim=i.client_claim,
            tenant_claim=i.tenant_claim,
            jwks_uri=i.jwks_uri,
            token_types=i.token_types,
        )
        for i in config.identity.issuers
    ]


def _clients(config: Config) -> dict[str, ClientPolicy]:
    return {
        name: ClientPolicy(client.issuer, frozenset(client.agents), frozenset(client.on_behalf_of))
        for name, client in config.identity.clients.items()
    }


def _fetch_outcome(fetched: Fetched) -> Literal["fetched", "failed"]:
    return "fetched" if fetched.problem is None else "failed"

"""The receiver as a sub-application."""

from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.typedefs import Middleware

from relay.http import problems
from relay.receiver.hooks import Hooks
from relay.receiver.routes import Receiver
from relay.receiver.store import Ratings

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer  # an extra


def receiver_app(ratings: Ratings, hooks: Hooks, *, tracer: "Tracer | None" = None) -> web.Application:
    """The specialist's side of ``roblox-v1``, to be mounted with ``app.add_subapp(PREFIX, …)``.

    It makes its table when the application starts. The host opens and closes the database. With ``tracer``, the host's
    own of OpenTelemetry, each request is a span of the trace that the relay began.
    """
    middlewares: list[Middleware] = [problems.middleware]
    if tracer is not None:
        from relay.receiver.tracing import traced  # noqa: PLC0415 - an extra

        middlewares.insert(0, traced(tracer))
    app = web.Application(middlewares=middlewares)

    async def prepare(_: web.Application) -> None:
        await ratings.prepare()

    app.on_startup.append(prepare)
    app.add_routes(Receiver(ratings, hooks).routes())
    return app

"""The receiver as a sub-application."""

from aiohttp import web

from relay.http import problems
from relay.receiver.hooks import Hooks
from relay.receiver.routes import Receiver
from relay.receiver.store import Ratings


def receiver_app(ratings: Ratings, hooks: Hooks) -> web.Application:
    """The specialist's side of ``roblox-v1``, to be mounted with ``app.add_subapp(PREFIX, …)``.

    It makes its table when the application starts. The host opens and closes the database.
    """
    app = web.Application(middlewares=[problems.middleware])

    async def prepare(_: web.Application) -> None:
        await ratings.prepare()

    app.on_startup.append(prepare)
    app.add_routes(Receiver(ratings, hooks).routes())
    return app

"""Which specialist tasks an answer came from, and who owns them."""

from relay.provenance.routes import RECORDER, routes

__all__ = ["RECORDER", "routes"]

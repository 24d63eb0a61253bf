"""What the relay gives to web pages: the rating widget.

The widget is written as a few small ES modules in ``widget/`` and served as one (see `relay.web.module`).
"""

from relay.web.module import load
from relay.web.routes import WIDGET, routes

__all__ = ["WIDGET", "load", "routes"]

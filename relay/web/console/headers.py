"""What every answer below ``/console`` tells the browser not to do."""

from collections.abc import Mapping
from typing import Final

from aiohttp import web

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""Nothing inline, nothing from elsewhere. A sign-in starts with a link, so that no form ends at the issuer."""

HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Addresses of pages name owners and submissions. (With no-referrer, our own forms would come from origin null.)
    "Referrer-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


async def protect(request: web.Request, response: web.StreamResponse) -> None:
    """Set the headers, whoever made the answer."""
    if request.path != "/console" and not request.path.startswith("/console/"):
        return
    for name, value in HEADERS.items():
        response.headers[name] = value
    # A static file says otherwise of itself; nothing else may be kept.
    response.headers.setdefault("Cache-Control", "no-store")

"""An action that does not apply: a page that says what stands in its way, how things stand, and where to go on."""

from typing import Final

from aiohttp import web

from relay.errors import FieldProblem, Refusal
from relay.http.problems import PROBLEM
from relay.web.console.shell import render
from relay.web.console.visits import Visit

MOST_CHARACTERS: Final = 1000
"""Of a reason, as the API takes it."""


def reason(visit: Visit) -> str:
    """The reason that a form gives, for the audit log. Raises `Refusal` where it gives none."""
    why = visit.form.get("why", "").strip()
    if not why or len(why) > MOST_CHARACTERS:
        detail = f"Say why, in 1 to {MOST_CHARACTERS:,} characters: it stands in the audit log. Nothing was done."
        raise Refusal("invalid_field", detail, errors=(FieldProblem("/why", detail),))
    return why


def not_done(request: web.Request, visit: Visit, refusal: Refusal, *, address: str, label: str) -> web.Response:
    """The refusal with the way back to what it is about, whose page shows how it stands now."""
    request[PROBLEM] = refusal.code
    values = {"refusal": refusal, "address": address, "label": label, "state": refusal.extra.get("state")}
    return render(request, visit, "not_done.html", values, status=refusal.status)

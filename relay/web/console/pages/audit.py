"""``/console/audit``: who decided what, newest first."""

import json
from collections.abc import Mapping
from dataclasses import astuple
from typing import Any, Final
from urllib.parse import quote

from aiohttp import web

from relay.operators.audit_trail.routes import AUDIT_TRAIL, administers
from relay.operators.audit_trail.store import Entry
from relay.operators.audit_trail.wire import AuditQuery
from relay.operators.paging import Place
from relay.web.console.pages.asked import asked
from relay.web.console.pages.totals import MOST_COUNTED, Total
from relay.web.console.shell import ROOT, Pages, render
from relay.web.console.visits import Visit

LABELS: Final[Mapping[str, str]] = {"since": "from", "until": "before"}

pages = Pages()


@pages.get("/audit", name="console_audit", nav="Audit")
async def audit(request: web.Request, visit: Visit) -> web.StreamResponse:
    """The tenant's entries, and those of the deployment for who administers it."""
    wanted, tenant = asked(request, AuditQuery, visit.zone), visit.principal.tenant
    query, deployment = wanted.query, administers(request, visit.principal)
    chosen = query.wanted()
    place: Place[Entry] = Place(request, tenant, "console audit", *astuple(chosen), deployment, cursor=query.cursor)
    trail = request.app[AUDIT_TRAIL]
    found = await trail.page(tenant, chosen, deployment=deployment, before=place.position, most=query.limit + 1)
    items, following = place.page(found, query.limit, lambda entry: entry.seq)
    total = Total(await trail.count(tenant, chosen, deployment=deployment, most=MOST_COUNTED + 1))
    values = {
        "items": [{"entry": entry, "address": _address(entry), "change": _change(entry)} for entry in items],
        "total": total,
        "following": None if following is None else wanted.address(cursor=following),
        "first": None if query.cursor is None else wanted.address(),
        "fields": wanted.fields,
        "since": wanted.local("since"),
        "until": wanted.local("until"),
        "zone": visit.zone.key,
        "chips": wanted.chips(),
        "labels": LABELS,
    }
    return render(request, visit, "audit.html", values)


def _address(entry: Entry) -> str | None:
    """The page of what was decided about, where it has one."""
    kind = entry.action.partition(".")[0]
    if kind == "submission" and entry.target.count("/") == 1:
        return f"{ROOT}/submissions/{quote(entry.target, safe='/')}"
    if kind == "agent":
        return f"{ROOT}/agents/{quote(entry.target, safe='')}"
    if kind == "job" and entry.target.startswith("job/"):
        return f"{ROOT}/jobs/{quote(entry.target.removeprefix('job/'), safe='')}"
    return None


def _change(entry: Entry) -> list[tuple[str, str, str]]:
    """What is otherwise after than before, member by member."""
    before, after = entry.before or {}, entry.after or {}
    names = [*before, *(name for name in after if name not in before)]
    return [
        (name, _plain(before.get(name)), _plain(after.get(name)))
        for name in names
        if before.get(name) != after.get(name)
    ]


def _plain(value: Any) -> str:  # noqa: ANN401 - any member of an entry
    if value is None:
        return "–"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

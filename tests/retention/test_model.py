"""Whose ratings are kept for how long."""

import pytest

from relay.config.sections import Retention, TenantRetention
from relay.retention.configured import policy
from relay.retention.model import Policy


@pytest.mark.parametrize(
    ("tenant", "days"), [("acme", 365), ("kept", None), ("anybody", 30)], ids=["own", "for ever", "default"]
)
def test_a_tenant_has_its_own_policy_or_the_default(tenant: str, days: int | None):
    """A tenant's own days go before the default; 0 keeps for ever, though others are not kept."""
    assert Policy(30, {"acme": 365, "kept": 0}).days_for(tenant) == days


@pytest.mark.parametrize(
    ("stated", "erases"),
    [
        (Policy(), False),
        (Policy(0, {"acme": 0}), False),
        (Policy(1), True),
        (Policy(1, {"acme": 0}), True),
        (Policy(0, {"acme": 1}), True),
    ],
    ids=["nothing said", "kept by name", "default", "default but one", "one"],
)
def test_whether_anything_is_erased_by_age(stated: Policy, erases: bool):  # noqa: FBT001 - a parameter
    """Without a policy nothing ever is, and nothing is looked for."""
    assert stated.erases is erases


def test_the_configuration_states_the_policy():
    """As operators write it, so it is applied."""
    stated = policy(Retention(days=30, tenants={"https://login.example.org": TenantRetention(days=365)}))
    assert (stated.days_for("https://login.example.org"), stated.days_for("acme")) == (365, 30)
    assert policy(Retention()).days_for("acme") is None

"""Prometheus's own tool for rules, where there is one."""

import os
import shutil

import pytest

REQUIRED = "RELAY_TEST_REQUIRE_PROMTOOL"


def promtool() -> str:
    """The program; skips the test where there is none, unless the environment insists."""
    found = shutil.which("promtool")
    if found is None:
        missing = "promtool is not installed (Debian: apt-get install --no-install-recommends prometheus)"
        if os.environ.get(REQUIRED) == "1":  # noqa: TID251 - what the test run asks for
            pytest.fail(missing)
        pytest.skip(missing)
    return found

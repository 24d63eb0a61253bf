"""Windows, and how callers are told where they stand."""

import re

from hypothesis import given
from hypothesis import strategies as st

from relay.limits.model import WINDOW_MS, Bucket, Limit, fields, standing, window_of

buckets = st.binary(min_size=16, max_size=16).map(lambda raw: Bucket(raw.hex()))
moments = st.integers(0, 4_000_000_000_000)


@given(buckets, moments)
def test_every_moment_lies_in_one_window(bucket: Bucket, now: int):
    """It has begun and is not over, and every moment within it says the same."""
    start = window_of(bucket, now)
    assert start <= now < start + WINDOW_MS
    assert window_of(bucket, start) == window_of(bucket, start + WINDOW_MS - 1) == start
    assert window_of(bucket, start + WINDOW_MS) == start + WINDOW_MS


def test_windows_of_buckets_do_not_begin_together():
    """Or all who wait would come back in the same second."""
    starts = {window_of(Bucket(f"{n * 0x01234567 % 0xFFFFFFFF:08x}"), 1_800_000_000_000) for n in range(100)}
    assert len(starts) > 90


@given(buckets, moments, st.integers(1, 1000), st.integers(0, 2000))
def test_waiting_as_told_is_long_enough(bucket: Bucket, now: int, quota: int, used: int):
    """After ``reset_seconds`` there is a new window; nothing is ever left below zero."""
    told = standing(Limit("owner", quota, bucket), used, now)
    assert 1 <= told.reset_seconds <= 60
    assert window_of(bucket, now + told.reset_seconds * 1000) > window_of(bucket, now)
    assert told.remaining == max(0, quota - used)


def test_the_fields_are_lists_with_parameters():
    """As draft-ietf-httpapi-ratelimit-headers writes them, with a member for each limit."""
    bucket = Bucket("00" * 16)
    now = window_of(bucket, 1_800_000_000_000) + 15_500
    told = fields([standing(Limit("address", 5, bucket), 5, now), standing(Limit("owner", 600, bucket), 1, now)])
    assert told == {
        "RateLimit-Policy": '"address";q=5;w=60, "owner";q=600;w=60',
        "RateLimit": '"address";r=0;t=45, "owner";r=599;t=45',
    }
    member = r'"[a-z]+"(;[a-z]+=[0-9]+)+'
    assert all(re.fullmatch(f"{member}(, {member})*", value) for value in told.values())

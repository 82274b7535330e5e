"""Limits count what was let in, and say truthfully when there is room again."""

from __future__ import annotations

import pytest

from kvant.gateway import settings
from kvant.gateway.admission.bucket import Bucket
from kvant.gateway.admission.quota import Limits, Quota
from kvant.gateway.admission.quotas import Quotas
from kvant.gateway.keys.key import made
from kvant.http.body import Refused


def test_a_bucket_gives_a_minute_at_once_and_then_as_it_fills() -> None:
    bucket = Bucket(60, now=0.0)
    for _ in range(60):
        assert bucket.wait(1, 0.0) == 0
        bucket.take(1, 0.0)
    assert bucket.wait(1, 0.0) == pytest.approx(1.0)
    assert bucket.wait(1, 0.999) > 0
    assert bucket.wait(1, 1.0) == 0
    assert bucket.wait(10, 1.0) == pytest.approx(9.0)


def test_waiting_as_long_as_was_said_suffices() -> None:
    bucket = Bucket(7, now=0.0)
    now = 0.0
    for _ in range(50):
        now += bucket.wait(1, now)
        assert bucket.wait(1, now) < 1e-9
        bucket.take(1, now)
    assert now == pytest.approx((50 - 7) * 60 / 7)


def test_a_clock_that_goes_back_gives_nothing_away() -> None:
    bucket = Bucket(60, now=100.0)
    bucket.take(60, 100.0)
    assert bucket.level(40.0) == 0
    assert bucket.level(101.0) == pytest.approx(1.0)


def test_more_than_a_minute_holds_waits_for_a_full_bucket_and_leaves_a_debt() -> None:
    bucket = Bucket(60, now=0.0)
    assert bucket.wait(1000, 0.0) == 0
    bucket.take(1000, 0.0)
    assert bucket.wait(1, 0.0) == pytest.approx(941)


def test_what_was_reserved_and_not_spent_comes_back() -> None:
    quota = Quota(Limits(tokens=1000), now=0.0)
    quota.take(900, 0.0)
    assert quota.short(200, 0.0) is not None
    quota.give(900, 50, 0.0)
    assert quota.short(950, 0.0) is None
    assert quota.headers(0.0)["x-ratelimit-remaining-tokens"] == "950"


def test_a_refused_request_takes_nothing_of_anybody() -> None:
    quotas = Quotas(settings.Limits(requests_per_minute=3, key_concurrency=1))
    key, _ = made("one", ("generate",), 0.0)
    with quotas.granted(key, 1):
        for _ in range(10):
            with pytest.raises(Refused) as caught, quotas.granted(key, 1):
                pass
            assert caught.value.refusal.reason == "limit_concurrency"
    with quotas.granted(key, 1), pytest.raises(Refused), quotas.granted(key, 1):
        pass
    with quotas.granted(None, 1):
        pass
    with pytest.raises(Refused) as caught, quotas.granted(None, 1):
        pass
    assert caught.value.refusal.status == 429
    assert 18 <= (caught.value.refusal.retry_after or 0) <= 20
    assert quotas.used == 0


def test_a_keys_own_limits_come_before_those_of_all_keys() -> None:
    quotas = Quotas(settings.Limits(key_requests_per_minute=1))
    usual, _ = made("usual", ("generate",), 0.0)
    large, _ = made("large", ("generate",), 0.0, requests_per_minute=5)
    for key, count in ((usual, 1), (large, 5)):
        for _ in range(count):
            with quotas.granted(key, 1):
                assert quotas.headers(key)["x-ratelimit-limit-requests"] == str(count)
        with pytest.raises(Refused), quotas.granted(key, 1):
            pass

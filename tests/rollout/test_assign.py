"""Who goes where: evenly, always the same, and in stays in."""

from __future__ import annotations

import math

import pytest

from kvant.rollout.assign import in_candidate, place

USERS = [f"user-{n}" for n in range(4_000)]


def test_who_is_in_at_five_per_cent_is_in_at_more():
    inside: set[str] = set()
    for weight in (0.01, 0.05, 0.25, 0.5, 1.0):
        now = {user for user in USERS if in_candidate("salt", user, weight)}
        assert inside <= now
        spread = 3 * math.sqrt(weight * (1 - weight) / len(USERS))
        assert len(now) / len(USERS) == pytest.approx(weight, abs=spread + 1e-9)
        inside = now
    assert not any(in_candidate("salt", user, 0.0) for user in USERS)


def test_another_salt_is_another_order():
    first, second = ({u for u in USERS if in_candidate(salt, u, 0.5)} for salt in "ab")
    assert len(first & second) / len(USERS) == pytest.approx(0.25, abs=0.03)


def test_requests_without_a_text_are_drawn_one_by_one():
    inside = sum(in_candidate("salt", "", 0.5) for _ in range(2_000))
    assert 800 < inside < 1_200


@pytest.mark.parametrize("text", ["", "\udc80 half a surrogate", "x" * 100_000, "\0"])
def test_every_text_has_a_place(text):
    assert 0 <= place("salt", text) < 1

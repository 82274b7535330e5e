"""Everything together, in a real gateway before two real arms: from shadow to patrol."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kvant.gateway.answers.join import Answers
from kvant.gateway.app import Gateway
from kvant.gateway.cast import Always
from kvant.rollout.evidence import BASELINE, CANDIDATE, Comparison, Serving
from tests.gateway.answers.texts import PROSE
from tests.gateway.engine import Engine
from tests.gateway.running import HELLO, Running, settings

SET: dict[str, Any] = {
    "breaker": {"minimum": 5, "retry": 300.0},
    "shadow": {"share": 1.0},
    "comparing": {"share": 1.0, "in_flight": 50, "per_minute": 10_000},
    "patrol": {"window": 5},
}
SOUND = PROSE + "so that the next word can be chosen."


class Release:
    """A gateway whose rollout is moved by hand."""

    def __init__(self, baseline: Engine, candidate: Engine) -> None:
        self.baseline, self.candidate = baseline, candidate
        self.phase, self.router = "shadow", Always(BASELINE)
        self.seen: list[Serving | Comparison] = []
        self.events: list[tuple[str, bool]] = []
        self.running = Running(settings([baseline], [candidate], **SET), self._plug)

    def _plug(self, gateway: Gateway) -> None:
        self.answers = Answers(
            gateway, gateway.settings, self, lambda: self.phase, self.seen.append,
            lambda name, raised, ratio: self.events.append((name, raised)), prompts_may_be_kept=True,
        )  # fmt: skip

    def choose(self, call: Any) -> str:
        return self.router.choose(call)

    def ask(self, times: int = 1, **asked: Any) -> list[str]:
        answers = [
            self.running.post({"messages": HELLO, "max_tokens": 6, **asked}).json() for _ in range(times)
        ]
        return [one["choices"][0]["message"]["content"] for one in answers]

    def until(self, kind: type, count: int) -> list[Any]:
        """The evidence of this kind, once there is so much."""
        return until(
            lambda: (found := [one for one in self.seen if isinstance(one, kind)])[count - 1 :] and found
        )


def until(true: Callable[[], Any], seconds: float = 5.0) -> Any:
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, "never came"
        time.sleep(0.005)
    return found


@pytest.fixture
def release() -> Iterator[Release]:
    with Engine(per_token=0.0, first=0.0) as baseline, Engine(per_token=0.0, first=0.0) as candidate:
        found = Release(baseline, candidate)
        with found.running:
            yield found


def test_a_shadow_gives_evidence_of_both_arms(release: Release) -> None:
    release.candidate.logprob = -0.7
    release.ask(3)
    served = release.until(Serving, 6)
    assert (
        sorted((one.arm, one.shadow) for one in served) == [(BASELINE, False)] * 3 + [(CANDIDATE, True)] * 3
    )
    assert not any(one.failed or one.degenerate for one in served)
    compared = release.until(Comparison, 3)
    assert len(compared) == 3, "each call once"
    assert all(one.divergence > 0.001 for one in compared)
    assert len({one.id for one in compared}) == 3


def test_a_candidate_that_is_down_fails_in_shadow_only(release: Release) -> None:
    release.candidate.fault = "500"
    assert release.ask(2)
    served = release.until(Serving, 4)
    assert (
        sorted((one.arm, one.failed) for one in served) == [(BASELINE, False)] * 2 + [(CANDIDATE, True)] * 2
    )


def test_a_degenerate_candidate_is_shut_out_and_no_client_sees_it(release: Release) -> None:
    release.phase, release.router = "canary", Always(CANDIDATE)
    release.baseline.writes, release.candidate.writes = SOUND, PROSE + "the " * 120
    assert release.ask(5, max_tokens=1000) == [SOUND] * 5
    assert [one.degenerate for one in release.until(Serving, 5)] == [True] * 5
    assert until(lambda: release.answers.fuse.phase(CANDIDATE) == "open")
    asked = len(release.candidate.requests)
    assert release.ask(3, max_tokens=1000) == [SOUND] * 3
    live = [one.arm for one in release.until(Serving, 11) if not one.shadow]
    assert live == [CANDIDATE] * 5 + [BASELINE] * 3
    generated = [one for one in release.candidate.requests[asked:] if "prompt_logprobs" not in one["body"]]
    assert len(generated) <= 3, "no call went there but copies"


def test_a_baseline_that_loops_by_itself_excuses_its_candidate(release: Release) -> None:
    release.baseline.writes = release.candidate.writes = PROSE + "the " * 120
    release.ask(6, max_tokens=1000)
    release.until(Serving, 12)
    release.phase, release.router = "canary", Always(CANDIDATE)
    release.ask(8, max_tokens=1000)
    assert release.answers.fuse.usual == 1.0
    assert release.answers.fuse.phase(CANDIDATE) == "closed"


def test_after_the_release_drift_is_raised_and_cleared(release: Release) -> None:
    release.phase, release.router = "canary", Always(CANDIDATE)
    release.candidate.logprob = -0.55
    release.ask(5)
    release.until(Comparison, 5)
    release.phase = "full"
    for logprob, expected in ((-0.5, []), (-0.9, [("divergence", True)]), (-0.5, [("divergence", False)])):
        release.candidate.logprob, before = logprob, len(release.events)
        count = len([one for one in release.seen if isinstance(one, Comparison)]) + 5
        release.ask(5)
        release.until(Comparison, count)
        until(lambda before=before, expected=expected: release.events[before:] == expected)  # type: ignore[misc]
    assert release.answers.shadow.skipped.total() == 0
    assert not release.answers.patrol.raised


def test_nothing_is_asked_of_arms_while_no_release_is_under_way(release: Release) -> None:
    for phase in ("idle", "rolled_back"):
        release.phase = phase
        release.ask(2)
        release.until(Serving, 2)
    assert release.candidate.requests == []
    assert len(release.baseline.requests) == 4
    assert not [one for one in release.seen if isinstance(one, Comparison)]

"""A circuit breaker: opens on rates, tries again after a time that doubles. Pure; seconds are arguments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

from kvant.gateway.answers.settings import Breaker

SLICES = 12
"""Parts of the window, in which answers are counted."""
QUEUED, LEASE = 30.0, 600.0
"""Seconds after which a probe that never began, or never came back, no longer counts as under way."""


class Outcome(Enum):
    """How a call to the arm ended."""

    GOOD = "good"
    FAILED = "failed"
    TRIPPED = "tripped"
    NEITHER = "neither"
    """Its client left, or asked nonsense."""


@dataclass(frozen=True)
class Slice:
    """Answers of a part of the window; it begins at `number` times its length."""

    number: int
    answers: int = 0
    failed: int = 0
    tripped: int = 0


@dataclass(frozen=True)
class State:
    """Closed while `until` is None; else open, and from then on half-open: `probes` are let through."""

    slices: tuple[Slice, ...] = ()
    until: float | None = None
    wait: float = 0.0
    good: int = 0
    """Probes that went well."""
    probes: tuple[tuple[str, float], ...] = ()
    """Calls let through on probation, and until when they count."""
    why: str = ""
    """What it opened for: failed or tripped."""

    def phase(self, now: float) -> str:
        if self.until is None:
            return "closed"
        return "open" if now < self.until else "half-open"


def admit(state: State, call: str, now: float, settings: Breaker) -> tuple[State, bool]:
    """Whether the arm may have this call."""
    phase = state.phase(now)
    if phase != "half-open":
        return state, phase == "closed"
    held = tuple(one for one in state.probes if now < one[1])
    if len(held) + state.good >= settings.probes:
        return replace(state, probes=held), False
    return replace(state, probes=(*held, (call, now + QUEUED))), True


def began(state: State, call: str, now: float) -> State:
    """The arm has the call now: it may have been refused while it waited for a place."""
    if not any(one == call for one, _ in state.probes):
        return state
    rest = tuple(one for one in state.probes if one[0] != call)
    return replace(state, probes=(*rest, (call, now + LEASE)))


def ended(
    state: State, call: str, outcome: Outcome, now: float, settings: Breaker, usual: float = 0.0
) -> State:
    """After a call ended on the arm. `usual` is the share of abnormal answers of the baseline.

    While it is not closed only probes count: what began before says nothing new.
    """
    if state.until is not None:
        return _probed(state, call, outcome, now, settings)
    if outcome is Outcome.NEITHER:
        return state
    slices = tuple(_counted(state.slices, outcome, int(now * SLICES / settings.window)))
    answers, failed, tripped = (
        sum(getattr(one, name) for one in slices) for name in ("answers", "failed", "tripped")
    )
    if answers >= settings.minimum:
        if failed and failed > settings.errors * answers:
            return _opened(Outcome.FAILED, settings.retry, now)
        if tripped and tripped > (settings.trips + usual) * answers:
            return _opened(Outcome.TRIPPED, settings.retry, now)
    return replace(state, slices=slices)


def _probed(state: State, call: str, outcome: Outcome, now: float, settings: Breaker) -> State:
    rest = tuple(one for one in state.probes if one[0] != call)
    if len(rest) == len(state.probes):
        return state
    if outcome in (Outcome.FAILED, Outcome.TRIPPED):
        return _opened(outcome, min(2 * state.wait, settings.longest_retry), now)
    good = state.good + (outcome is Outcome.GOOD)
    return State() if good >= settings.probes else replace(state, probes=rest, good=good)


def _opened(outcome: Outcome, wait: float, now: float) -> State:
    return State(until=now + wait, wait=wait, why=outcome.value)


def _counted(slices: tuple[Slice, ...], outcome: Outcome, number: int) -> Iterator[Slice]:
    kept = [one for one in slices if number - SLICES < one.number <= number]
    last = kept.pop() if kept and kept[-1].number == number else Slice(number)
    yield from kept
    yield replace(
        last,
        answers=last.answers + 1,
        failed=last.failed + (outcome is Outcome.FAILED),
        tripped=last.tripped + (outcome is Outcome.TRIPPED),
    )

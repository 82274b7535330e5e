"""Where a rollout stands, and what may follow. Pure: no clock, no I/O.

idle ── start ─> shadow ── promote ─> canary ── promote ─> ... ── promote ─> full
                    └───────────────────┴──── roll back ─────────┴──> rolled_back ── start ─> shadow
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from kvant.errors import RolloutError
from kvant.rollout.plan import Plan

Phase = Literal["idle", "shadow", "canary", "full", "rolled_back"]
Command = Literal["start", "promote", "pause", "resume", "rollback"]
REMEMBERED = 50
MOST = 1 << 53
STAGES = 10_000
"""More phases than any plan has."""


@dataclass(frozen=True)
class Entry:
    """One change, for people; `at` is wall-clock seconds and decides nothing."""

    at: float
    phase: Phase
    weight: float
    who: str
    why: str


@dataclass(frozen=True)
class State:
    """All that must survive. `version` grows with every change that is kept."""

    version: int = 0
    phase: Phase = "idle"
    weight: float = 0.0
    """Share of the traffic that the candidate answers."""
    candidate: str = ""
    """Which candidate this is about; another one has no weight."""
    generation: int = 0
    """Counts starts; evidence is never carried from one to the next."""
    stage: int = 0
    """Counts phases since the start."""
    dwelt: float = 0.0
    """Seconds in this phase that a gateway was there to see."""
    salt: str = ""
    paused: bool = False
    history: tuple[Entry, ...] = ()

    @property
    def active(self) -> bool:
        return self.phase in ("shadow", "canary", "full")

    @property
    def reason(self) -> str:
        return self.history[-1].why if self.history else ""

    @property
    def since(self) -> float | None:
        """Wall-clock seconds of the last change."""
        return self.history[-1].at if self.history else None

    def to(self, phase: Phase, weight: float, at: float, who: str, why: str, **fields: Any) -> State:
        """The next version, with the change remembered."""
        entry = Entry(at, phase, weight, who, why)
        history = (*self.history, entry)[-REMEMBERED:]
        changed = {"phase": phase, "weight": weight, "dwelt": 0.0, "history": history} | fields
        return replace(self, version=self.version + 1, **changed)

    def plain(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def of(plain: dict[str, Any]) -> State:
        """What `plain` gave; `ValueError`, `KeyError` or `TypeError` where it is no state: somebody else
        wrote it, and traffic must not follow."""
        state = State(**plain | {"history": tuple(Entry(**entry) for entry in plain["history"])})
        counts = (state.version, state.generation, state.stage)
        sound = (
            all(type(one) is int and 0 <= one <= MOST for one in counts)
            and state.phase in get_args(Phase)
            and 0 <= float(state.weight) <= 1
            and 0 <= float(state.dwelt) < math.inf
            and all(type(one) in (int, float) for one in (state.weight, state.dwelt))
            and all(isinstance(one, str) for one in (state.candidate, state.salt))
            and type(state.paused) is bool
            and state.stage <= STAGES
        )
        if not sound:
            raise ValueError("what is kept there is no state of a rollout")
        return state


def start(state: State, candidate: str, salt: str, at: float, who: str) -> State:
    """Shadow, with a new salt and no evidence; refused while this candidate is already under way."""
    if state.active and state.candidate == candidate:
        raise RolloutError(f"start: the rollout is already in phase {state.phase}; roll it back first")
    return state.to(
        "shadow", 0.0, at, who, "started",
        candidate=candidate, salt=salt, generation=state.generation + 1, stage=0, paused=False,
    )  # fmt: skip


def promote(state: State, plan: Plan, at: float, who: str, why: str) -> State:
    """The next step of the plan, or full."""
    if state.phase not in ("shadow", "canary"):
        raise RolloutError(f"promote: nothing comes after phase {state.phase}")
    weight = plan.after(state.weight)
    return state.to("full" if weight == 1 else "canary", weight, at, who, why, stage=state.stage + 1)


def roll_back(state: State, at: float, who: str, why: str) -> State:
    """Weight 0 until started again by hand."""
    if not state.active:
        raise RolloutError(f"rollback: the candidate has no traffic in phase {state.phase}")
    return state.to("rolled_back", 0.0, at, who, why, paused=False)


def pause(state: State, paused: bool, at: float, who: str) -> State:
    """While paused nothing is promoted and dwell stands still; evidence still rolls back."""
    word = "pause" if paused else "resume"
    if not state.active:
        raise RolloutError(f"{word}: nothing is under way in phase {state.phase}")
    if state.paused == paused:
        raise RolloutError(f"{word}: the rollout is {'already' if paused else 'not'} paused")
    return state.to(state.phase, state.weight, at, who, f"{word}d", paused=paused, dwelt=state.dwelt)


def dwell(state: State, seconds: float) -> State:
    """So much more time was spent in this phase; where none is waited for, it is not counted."""
    if state.phase not in ("shadow", "canary") or state.paused or seconds <= 0:
        return state
    return replace(state, version=state.version + 1, dwelt=state.dwelt + seconds)

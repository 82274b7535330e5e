"""One gateway's part in a rollout: who answers, what was seen, and what follows from it."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable
from typing import Any, get_args

from kvant.errors import RolloutError, StoreError
from kvant.rollout import state as states
from kvant.rollout.assign import in_candidate
from kvant.rollout.decide import decide
from kvant.rollout.evidence import BASELINE, CANDIDATE, Comparison, Serving
from kvant.rollout.outbox import Outbox, Phase
from kvant.rollout.plan import Plan
from kvant.rollout.state import Command, State
from kvant.rollout.status import status
from kvant.rollout.stores import Store
from kvant.rollout.tally import Sums, Tally, plus

log = logging.getLogger(__name__)

POLICY = "evidence"
"""Who changes the phase when no person does."""
LONGEST = 10.0
"""Seconds between two ticks that count as dwell at most: what nobody watched is no evidence."""
TRIES = 20
ABSENT = "no replica of the {} is up"


class Controller:
    """Thread-safe. `choose`, `observe` and `status` never wait; `tick` and `command` wait for the store.

    What lowers the candidate's weight is done first and kept afterwards; what raises it is kept first. So
    after kill -9 the weight is the one last kept, and a rollout that lost its store holds where it is, or
    rolls back.
    """

    def __init__(
        self,
        plan: Plan,
        store: Store,
        candidate: str,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        salt: Callable[[], str] = secrets.token_urlsafe,
        up: Callable[[str], bool] = lambda arm: True,
    ) -> None:
        """`candidate` names the very thing that is released (recipe and digest, model, address): another name
        is another candidate, which has no weight before it is started. `up` says whether an arm is there now:
        while one of the two is not, time in a phase stands still and nothing is promoted."""
        self._plan, self._store, self._candidate = plan, store, candidate
        self._monotonic, self._wall, self._salt = monotonic, wall, salt
        self._up = up
        self._io, self._counting = threading.Lock(), threading.Lock()
        self._tally, self._outbox = Tally(plan.limits), Outbox()
        self._state = State()
        self._kept: list[Sums] = [{}]
        self._seen = monotonic()
        self._barred: int | None = None
        """The start whose candidate gets nothing more here, whatever is read from the store."""
        self._rollback_unkept: tuple[int, str, str] | None = None
        self._trouble = ""
        self.tick()

    def choose(self, sticky: str) -> str:
        """The arm that answers."""
        state = self._state
        weight = self._weight(state)
        return CANDIDATE if weight and in_candidate(state.salt, sticky, weight) else BASELINE

    def observe(self, seen: Serving | Comparison) -> None:
        """Add to the evidence, if a rollout is under way."""
        if not self._ours:
            return
        with self._counting:
            if isinstance(seen, Serving):
                self._tally.serving(seen)
            else:
                self._tally.comparison(seen)

    def tick(self) -> None:
        """Keep, read, decide; to be called at least every second. Trouble with the store is told by `status`
        and logged once, not raised."""
        with self._io:
            try:
                self._exchange()
                self._trouble_is(self._absent() if self._ours else "")
                self._decide()
            except StoreError as error:
                self._trouble_is(str(error))
                self._decide()
            self._snapshot()

    def command(self, name: str, who: str) -> dict[str, Any]:
        """What a person asks for, and the status afterwards; `RolloutError` where it makes no sense now,
        `StoreError` where it cannot be kept. A rollback happens even then."""
        if name not in get_args(Command):
            raise RolloutError(f"{name}: is no command; there are {', '.join(get_args(Command))}")
        if name == "rollback" and self._ours:
            self._barred = self._state.generation  # before waiting for a tick that waits for the store
        with self._io:
            if name == "rollback" and self._ours:
                self._roll_back(who, "by hand")
            else:
                self._exchange()
                self._change(lambda state: self._asked(name, state, who))
            self._snapshot()
        return self.status()

    def status(self) -> dict[str, Any]:
        """Plain values, as of the last tick or command."""
        return status(self._plan, *self._shown)

    @property
    def phase(self) -> str:
        return self._state.phase

    def _weight(self, state: State) -> float:
        """What goes to the candidate here; nothing of a start that was rolled back, kept or not."""
        return state.weight if self._ours_in(state) and state.generation != self._barred else 0.0

    def _ours_in(self, state: State) -> bool:
        return state.active and state.candidate == self._candidate

    @property
    def _ours(self) -> bool:
        return self._ours_in(self._state)

    @property
    def _phase(self) -> Phase:
        return Phase(self._state.generation, self._state.stage)

    def _asked(self, name: str, state: State, who: str) -> State:
        at = self._wall()
        if name == "start":
            return states.start(state, self._candidate, self._salt(), at, who)
        if state.candidate != self._candidate:
            raise RolloutError(f"{name}: this candidate has not been started")
        # A person may promote past a baseline that is down: its users are waiting.
        if name == "promote" and not self._up(CANDIDATE):
            raise RolloutError(f"promote: {ABSENT.format(CANDIDATE)}")
        if name == "promote":
            decision = decide(self._plan, state, self._evidence())
            if state.active and decision.verdict == "rollback":
                raise RolloutError(f"promote: {'; '.join(decision.why)}")
            why = f" ({'; '.join(decision.why)})" if decision.verdict == "hold" else ""
            return states.promote(state, self._plan, at, who, f"by hand{why}")
        if name == "rollback":
            return states.roll_back(state, at, who, "by hand")
        return states.pause(state, name == "pause", at, who)

    def _absent(self) -> str:
        """Which arm is missed, in words; once the candidate is full the baseline may be gone for good."""
        missed = (CANDIDATE,) if self._state.phase == "full" else (CANDIDATE, BASELINE)
        return next((ABSENT.format(arm) for arm in missed if not self._up(arm)), "")

    def _decide(self) -> None:
        if not self._ours:
            return
        decision = decide(self._plan, self._state, self._evidence())
        why = "; ".join(decision.why)
        if decision.verdict == "rollback":
            self._roll_back(POLICY, why)
        elif decision.verdict == "promote" and not self._trouble:
            phase = self._phase

            def next_step(state: State) -> State:
                same = (state.generation, state.stage) == phase and state.active and not state.paused
                return states.promote(state, self._plan, self._wall(), POLICY, why) if same else state

            self._change(next_step)

    def _roll_back(self, who: str, why: str) -> None:
        """Here at once; kept now if the store can, else as soon as it can."""
        self._barred = self._state.generation
        self._rollback_unkept = (self._state.generation, who, why)
        self._adopt(states.roll_back(self._state, self._wall(), who, why))
        try:
            self._keep_rollback()
        except StoreError as error:
            self._trouble_is(str(error))

    def _keep_rollback(self) -> None:
        if self._rollback_unkept is None:
            return
        generation, who, why = self._rollback_unkept

        def rolled_back(state: State) -> State:
            active = state.generation == generation and state.active
            return states.roll_back(state, self._wall(), who, why) if active else state

        self._change(rolled_back)
        self._rollback_unkept = None

    def _exchange(self) -> None:
        """Keep what was seen, take over what others did, and add to the time in this phase."""
        now = self._monotonic()
        seconds, self._seen = min(now - self._seen, LONGEST), now
        self._keep_rollback()
        stored = self._stored()
        if stored.version != self._state.version:
            # Another gateway has counted the time up to here.
            self._adopt(stored)
        elif self._ours:
            dwelt = states.dwell(stored, 0.0 if self._absent() else seconds)
            self._adopt(dwelt if self._store.swap(stored.version, dwelt) else self._stored())
        with self._counting:
            self._outbox.put(self._phase, self._tally.take())
        self._outbox.send(self._store)
        self._kept = self._store.sums(self._state.generation, self._state.stage + 1)

    def _stored(self) -> State:
        """A store that went back in time (restored, or restarted without its data) is told what we know."""
        stored = self._store.read() or State()
        if stored.version < self._state.version:
            self._store.swap(stored.version, self._state)
            stored = self._store.read() or State()
        return stored

    def _change(self, change: Callable[[State], State]) -> None:
        """Compare and swap until it is kept, each time from what is kept now."""
        for _ in range(TRIES):
            state = self._stored()
            changed = change(state)
            if changed is state or self._store.swap(state.version, changed):
                self._adopt(changed)
                return
        raise StoreError("the rollout's state: changed by others all the time; try again")

    def _adopt(self, state: State) -> None:
        """From now on this is the state; evidence so far belongs to the phase it was seen in."""
        before, phase = self._state, self._phase
        with self._counting:
            self._state = state
            if phase != self._phase:
                self._outbox.put(phase, self._tally.take())
                self._kept = [*self._kept, *({} for _ in range(state.stage))][: state.stage + 1]
            if before.generation != state.generation:
                self._tally, self._kept = Tally(self._plan.limits), [{} for _ in range(state.stage + 1)]
        if (before.phase, before.weight) != (state.phase, state.weight):
            level = logging.WARNING if state.phase == "rolled_back" else logging.INFO
            log.log(level, "rollout: %s, weight %g: %s", state.phase, state.weight, state.reason)

    def _evidence(self) -> list[Sums]:
        """Of every phase since the start: what the store has, and what it has not yet."""
        with self._counting:
            self._outbox.put(self._phase, self._tally.take())
        generation = self._state.generation
        return [plus(kept, self._outbox.of(Phase(generation, n))) for n, kept in enumerate(self._kept)]

    def _snapshot(self) -> None:
        weight = self._weight(self._state)
        self._shown = (self._state, self._evidence(), self._candidate, weight, self._trouble)

    def _trouble_is(self, trouble: str) -> None:
        if trouble and trouble != self._trouble:
            log.warning("rollout: holds: %s", trouble)
        self._trouble = trouble

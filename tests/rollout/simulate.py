"""A rollout in virtual time: what a plan would have done with a candidate of given faults.

Requests come evenly, from users who keep their arm; times follow the hour; the real controller decides.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from kvant.gateway.answers.comparer import TRIES
from kvant.rollout.controller import Controller
from kvant.rollout.evidence import BASELINE, CANDIDATE, Comparison, Serving
from kvant.rollout.plan import Plan
from kvant.rollout.stores.memory import Memory

Draw = Callable[[random.Random], float]


@dataclass(frozen=True)
class Behaviour:
    """How an arm answers. The defaults are those of a sound arm."""

    divergence: float = 0.004
    """Mean over requests, nats; log-normal."""
    spread: float = 1.0
    """Standard deviation of log divergence."""
    agreement: float = 0.97
    degenerate: float = 0.005
    failed: float = 0.001
    slowness: float = 1.0
    """Of every token and of the first, against the baseline."""
    scores: bool = True
    """Whether it scores given texts: not where its logits are no numbers."""


@dataclass(frozen=True)
class Traffic:
    """Who asks, how often, and how much of it is compared."""

    per_second: float = 10.0
    users: int = 5_000
    mirrored: float = 0.1
    """Share of requests that both arms see."""
    swing: float = 0.5
    """How far times go up and down in the course of the day, as a share."""
    first_token: float = 0.3
    per_token: float = 0.03
    jitter: float = 0.35


@dataclass(frozen=True)
class Outcome:
    """How it ended, and what it took until then."""

    phase: str
    reason: str
    seconds: float
    requests: int
    served: int
    """Requests that the candidate answered to users."""
    compared: int


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


TICK = 10.0
DAY = 86_400.0


def simulate(
    plan: Plan, candidate: Behaviour, traffic: Traffic, seed: int, longest: float = 7 * DAY
) -> Outcome:
    """Until full, rolled back, or `longest` seconds."""
    draw, clock = random.Random(seed), _Clock()
    controller = Controller(
        plan, Memory(), "simulated", monotonic=clock, wall=clock, salt=lambda: f"{draw.random()}"
    )
    controller.command("start", "simulation")
    sound = Behaviour()
    requests = served = compared = 0
    phase = "shadow"
    noon = draw.random() * DAY
    while phase in ("shadow", "canary") and clock.now < longest:
        load = 1 + traffic.swing * math.sin(2 * math.pi * (clock.now + noon) / DAY)
        for _ in range(round(TICK * traffic.per_second)):
            requests += 1
            arm = controller.choose(f"user-{draw.randrange(traffic.users)}")
            served += arm == CANDIDATE
            one = candidate if arm == CANDIDATE else sound
            controller.observe(_serving(draw, arm, one, traffic, load, clock.now))
            if draw.random() < traffic.mirrored:
                compared += 1
                if arm == BASELINE:
                    controller.observe(
                        _serving(draw, CANDIDATE, candidate, traffic, load, clock.now, shadow=True)
                    )
                if candidate.scores:
                    controller.observe(_comparison(draw, candidate, clock.now))
                elif compared >= TRIES:
                    controller.observe(Serving(CANDIDATE, clock.now, failed=True, shadow=True))
        clock.now += TICK
        controller.tick()
        phase = controller.phase
    reason = str(controller.status()["reason"])
    return Outcome(phase, reason, clock.now, requests, served, compared)


def _serving(
    draw: random.Random, arm: str, one: Behaviour, traffic: Traffic, load: float, at: float,
    shadow: bool = False,
) -> Serving:  # fmt: skip
    failed = draw.random() < one.failed
    slow = load * one.slowness
    return Serving(
        arm,
        at,
        failed,
        None if failed else traffic.first_token * slow * draw.lognormvariate(0, traffic.jitter),
        None if failed else traffic.per_token * slow * draw.lognormvariate(0, traffic.jitter),
        not failed and draw.random() < one.degenerate,
        shadow,
    )


def _comparison(draw: random.Random, one: Behaviour, at: float) -> Comparison:
    middle = math.log(one.divergence) - one.spread**2 / 2
    positions = 128
    expected = sum(draw.random() < one.agreement for _ in range(8)) / 8
    return Comparison(at, draw.lognormvariate(middle, one.spread), expected, positions)

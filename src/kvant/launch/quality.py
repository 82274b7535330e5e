"""Step 4: the gate's suites against a 16-bit baseline that is served beside, one step a suite."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kvant.errors import KvantError
from kvant.launch.result import Item, Step, Verdict
from kvant.launch.service import Service
from kvant.quality.gate.arm import BF16, Arm
from kvant.quality.gate.outcome import Result
from kvant.quality.gate.report.words import WORDS, amount
from kvant.quality.gate.run import Say, gate
from kvant.quality.gate.settings import Settings

NAME = "gate"


def name(suite: str) -> str:
    return f"{NAME} {suite}"


@contextmanager
def baseline(service: Service, model: str, settings: Settings, url: str | None) -> Iterator[Arm]:
    """A server of 16 bits, started here unless `url` names one; the suites share it."""
    longest = min(settings.max_context, service.longest or settings.max_context)
    with Arm(url or BF16, None if url else model, longest).running() as client:
        yield Arm(client.url, client.model, longest)


def run(
    service: Service, trusted: Arm, suite: Any, settings: Settings, facts: dict[str, Any], say: Say
) -> Step:
    """One suite; a service that breaks off has failed it, a baseline that does is inconclusive."""
    candidate = Arm(service.url, service.model, settings.max_context)
    one = settings.model_copy(update={"suites": (suite,)})
    try:
        (result,) = gate(trusted, candidate, one, facts, say).results
    except KvantError as error:
        return Step(name(suite), [Item("baseline", Verdict.INCONCLUSIVE, str(error))])
    return Step(name(suite), list(_items(result)), {"n": result.n, "planned": result.planned})


def left_out(suite: str) -> Step:
    return Step(name(suite), [Item(suite, Verdict.NOT_RUN, "left out by --suites")])


def _items(result: Result) -> Iterator[Item]:
    for check in result.judgement.checks:
        low, high, margin = (amount(check, x) for x in (check.low, check.high, check.margin))
        sign = "≥" if check.margin < 0 else "≤"
        yield Item(
            WORDS["en"][check.name],
            Verdict(check.verdict.value),
            f"{amount(check, check.value)} [{low}, {high}]",
            f"{sign} {margin}",
        )
    if not result.judgement.checks:
        yield Item(result.suite, Verdict(result.verdict.value), result.reason)

"""The outcome as a table in a terminal."""

from __future__ import annotations

from kvant.quality.gate.outcome import Outcome, Result
from kvant.quality.gate.report.phrases import said
from kvant.quality.gate.report.words import Words, amount, scores


def lines(outcome: Outcome, words: Words) -> list[str]:
    """One line a check, one for each suite's scores, and the verdict last."""
    found = [
        f"{words['baseline']} {outcome.baseline}, {words['candidate']} {outcome.candidate}: "
        f"{outcome.model}, {words['seed']} {outcome.seed}"
    ]
    for result in outcome.results:
        found += _suite(result, words)
    return [*found, f"{words['verdict']}: {words[outcome.verdict.value]}"]


def _suite(result: Result, words: Words) -> list[str]:
    seconds = " + ".join(f"{one:.0f}" for one in result.seconds)
    head = f"{result.suite:<10}{words[result.verdict.value]:<14}{result.n}/{result.planned}, {seconds} s"
    found = [head + "".join(f"; {name} {pair}" for name, pair in scores(result, words))]
    for check in result.judgement.checks:
        interval = f"{amount(check, check.value)} [{amount(check, check.low)}, {amount(check, check.high)}]"
        sign = "≥" if check.margin < 0 else "≤"
        found.append(
            f"  {words[check.name]:<26}{interval:<28} {sign} {amount(check, check.margin):<8}"
            f"{words[check.verdict.value]}"
        )
    return [*found, *(f"  {said(note, words)}" for note in (result.reason, *result.judgement.notes) if note)]

"""Is what it expects still what the model expects?"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

from kvant.doctor.finding import Finding, fail, ok, unknown, warn
from kvant.doctor.registry import service_check
from kvant.doctor.running.patient import Patient, cut
from kvant.doctor.running.reading import Reading
from kvant.errors import EngineError
from kvant.launch.service import Service
from kvant.quality.gate.material import Ruler, fits
from kvant.quality.gate.settings import Fidelity as Options
from kvant.quality.gate.suites.base import Pair
from kvant.quality.gate.suites.fidelity import Fidelity
from kvant.quality.gate.verdict import Verdict, worst

WHAT = "quality"
TEXTS, LENGTH, ALPHA = 2, 768, 0.01
NONSENSE = 7.0
"""Nats a token: perplexity 1,100 on plain English. No model that was trained reads it so badly."""

CAUSES = (
    "the recipe (another model's, sinks or transforms missing), layers of too few bits, or keys read "
    "otherwise than written; "
)
SCORING = "scoring needs prompt_logprobs, which vLLM and Kvant have"
MEND = (
    "`kvant gate --candidate URL` for the whole picture; calibrate again (`kvant calibrate MODEL --force`), "
    "or serve --preset int8"
)


@service_check
def quality(patient: Patient) -> Iterator[Finding]:
    if isinstance(patient.reading, str):
        yield unread(patient, patient.reading)
    elif patient.baseline is not None and isinstance(patient.service, Service):
        yield beside(patient.baseline, patient.service)
    else:
        yield by_itself(patient.reading)
    yield from drift(patient)


def unread(patient: Patient, why: str) -> Finding:
    """The text was not scored: what was in the way, and its mend where there is one."""
    if isinstance(patient.service, str) or patient.hangs:
        return unknown(WHAT, patient.lacks("a text to be read"))
    if limit := cut(why):
        return unknown(WHAT, f"a text is not read within {limit[0]}, {limit[1]}", f"raise {limit[0]}")
    return unknown(WHAT, why, SCORING if "prompt_logprobs" in why else "")


def by_itself(found: Reading) -> Finding:
    """Without another server: broken weights and a broken cache can be seen, small losses cannot."""
    harm = found.harm
    said = (
        f"context beyond {found.context} tokens changes the loss of English by {harm.value:+.2f} nats "
        f"[{harm.low:+.2f}, {harm.high:+.2f}], perplexity {_exp(found.near)} -> {_exp(found.far)}"
    )
    if found.near > NONSENSE:
        return fail(
            WHAT,
            f"perplexity {_exp(found.near)} on plain English with next to no context: the weights or the "
            "tokeniser are broken, not the cache",
            "verify the model's files (`kvant models`, its manifest) and fetch them again",
        )
    if harm.low > 0:
        return fail(WHAT, f"{said}: the cache does harm; {CAUSES}see --baseline", MEND)
    if harm.high > 0:
        return warn(WHAT, f"{said}: context does not clearly help", "compare: --baseline URL (16 bits)")
    return ok(WHAT, f"{said}: no collapse; a smaller loss is not measurable without --baseline URL")


def beside(baseline: Service, service: Service) -> Finding:
    """The gate's strongest suite, small: paired with a server that is trusted."""
    rooms = [fits(one.longest) for one in (baseline, service) if one.longest]
    suite = Fidelity(Options(texts=TEXTS, tokens=max(64, min([LENGTH, *rooms]))))
    try:
        with baseline.client() as trusted, service.client() as doubted:
            tasks = next(suite.tasks(random.Random("doctor"), Ruler.of(trusted.length)))
            pairs = [Pair(task, suite.ask(trusted, task), suite.ask(doubted, task)) for task in tasks]
        judged = suite.judge(pairs, ALPHA)
    except EngineError as error:
        return unknown(WHAT, str(error))
    kl = judged.checks[0]
    before, after = judged.scores["perplexity"]
    said = (
        f"KL to the baseline {kl.value:.4f} nats [{kl.low:.4f}, {kl.high:.4f}], margin {kl.margin:g}; "
        f"perplexity {before:.1f} -> {after:.1f}"
    )
    verdict = worst(check.verdict for check in judged.checks[:1])
    levels: dict[Verdict, Any] = {Verdict.FAIL: fail, Verdict.INCONCLUSIVE: warn}
    if verdict is Verdict.PASS:
        return ok(WHAT, said)
    cause = f": {CAUSES}or fewer bits than a lossless cache has" if verdict is Verdict.FAIL else ""
    finding: Finding = levels[verdict](WHAT, said + cause, MEND)
    return finding


def drift(patient: Patient) -> Iterator[Finding]:
    """The engine compares its own errors with those at calibration."""
    if patient.scrape is None or not (patient.scrape.total("kvant_drift_samples") or 0):
        return
    if patient.scrape.total("kvant_drift_alarm") == 1:
        worst_side = max(patient.scrape.total("kvant_drift_ratio", side=s) or 0.0 for s in ("key", "value"))
        yield warn(
            f"{WHAT} (drift)",
            f"errors of the codes are {worst_side:.2f} of the calibrated ones: traffic is unlike the text of "
            "the recipe",
            "`kvant calibrate MODEL --force` with --data FILE or --from-traffic FILE",
        )


def _exp(nats: float) -> str:
    return f"{math.exp(min(nats, 30.0)):.1f}"

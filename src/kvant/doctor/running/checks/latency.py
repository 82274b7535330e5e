"""Do requests wait too long? The queue, what is refused and cut, and long prompts that hold up the others."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kvant.doctor.finding import Finding, fail, ok, unknown, warn
from kvant.doctor.registry import service_check
from kvant.doctor.running.load import Load
from kvant.doctor.running.patient import Patient, cut
from kvant.telemetry.scrape import Scrape

WHAT = "timeouts"
STALL, TIMES = 2.0, 20.0
"""Seconds, and multiples of the usual gap, from which on a reader notices that the text stands still."""
CUT = 0.01
QUEUE = 10.0
FAILS = re.compile(r"\banswered 5\d\d:")
HUNG = "its log (--log FILE) and vllm:num_requests_running tell whether it computes; restart it"


@service_check
def timeouts(patient: Patient) -> Iterator[Finding]:
    if isinstance(patient.load, str):
        yield failed(patient, patient.load)
        return
    yield counted(patient.load.after.scrape)
    yield blocked(patient.load)


def failed(patient: Patient, why: str) -> Finding:
    """The load did not come to its end: what all that needs it refers to."""
    if isinstance(patient.service, str):
        return unknown(WHAT, patient.lacks("the load"))
    if limit := cut(why):
        field, seconds = limit
        return fail(
            WHAT,
            f"a request of the load was cut: {field} is {seconds}, and its answer takes longer",
            f"raise {field}; where it is meant to be so short, ask for shorter answers (max_tokens)",
        )
    if patient.hangs and patient.status == 200:
        return fail(WHAT, f"ready, and takes requests without answering: {why}", HUNG)
    if FAILS.search(why):
        return fail(WHAT, f"takes requests and fails them: {why}", "give its log: --log FILE")
    return unknown(WHAT, f"the load failed: {why}")


def counted(scrape: Scrape) -> Finding:
    """Since the service was started, not of our own load only."""
    cut = scrape.total("kvant_requests_rejected_total", reason="timeout") or 0.0
    busy = scrape.total("kvant_requests_rejected_total", reason="busy") or 0.0
    ended = scrape.total("vllm:request_success_total")
    if ended is None:
        return unknown(WHAT, "no vllm:request_success_total on /metrics")
    waiting = scrape.total("vllm:num_requests_waiting") or 0.0
    queued = scrape.mean("vllm:request_queue_time_seconds") or 0.0
    said = (
        f"{cut:.0f} cut by serving.timeout, {busy:.0f} refused for being too many, {ended:.0f} ended; "
        f"{waiting:.0f} wait now, {queued:.2f} s in the queue on average"
    )
    if cut and cut > CUT * ended:
        return fail(
            WHAT,
            f"{said}: requests take longer than they may",
            "shorter answers (max_tokens), a longer serving.timeout, or a lower serving.max_concurrency",
        )
    if queued > QUEUE:
        return warn(WHAT, f"{said}: the queue is too long", "more replicas, or a lower max_concurrency")
    return ok(WHAT, said)


def blocked(load: Load) -> Finding:
    """Chunks of a long prompt share steps with answers: the larger the chunk, the longer the others stand."""
    what = f"{WHAT} (long prompts)"
    said = (
        f"an answer stood still for {load.stall:.2f} s when a prompt of {load.prompt:,} tokens came; usually "
        f"{load.gap:.3f} s between tokens"
    )
    if load.stall > STALL and load.stall > TIMES * load.gap:
        return warn(
            what, f"{said}: long prompts block the others", "lower engine.max_num_batched_tokens (512), or "
            "route long prompts to replicas of their own",
        )  # fmt: skip
    return ok(what, said)

"""Each check on what a real service has shown, sound and with one fault planted in it.

/metrics is that of a real server (tests/launch/metrics.txt) with figures changed; what a fault does to a
real engine is in test_faults.py, which is slow.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterable
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from kvant.bench.serve.client import Stream
from kvant.config import load as load_settings
from kvant.doctor.finding import Finding, Level
from kvant.doctor.registry import SERVICE_CHECKS
from kvant.doctor.running import load as loads
from kvant.doctor.running import patient as patients
from kvant.doctor.running.checks import attention, blocks, garbled, latency, memory, quality, start, threads
from kvant.doctor.running.examine import examine as examine_running
from kvant.doctor.running.load import Load, Peaks, Snapshot
from kvant.doctor.running.patient import Patient
from kvant.doctor.running.reading import Reading
from kvant.errors import EngineError
from kvant.http import envelope
from kvant.kernels import select
from kvant.launch.service import Service
from kvant.quality.gate.stats import Interval
from kvant.telemetry.scrape import Scrape
from tests.launch import recorded
from tests.launch.stub import Stub, listening, serving

MIB = 1 << 20
SOUND = Reading(3.3, 3.0, Interval(-0.3, -0.4, -0.2), 400)
NO_TOKENS = {"vllm__prompt_tokens_total": 0.0, "vllm__generation_tokens_total": 0.0}


def scrape(parts: dict[str, float] | None = None, **changes: Any) -> Scrape:
    """`parts` are the seconds of kvant_model_seconds_total."""
    found = recorded.scrape(**{"kernel": select()[0].name, **changes})
    if parts is None:
        return found
    seconds = tuple(({"part": part}, value) for part, value in parts.items())
    return Scrape({**found.samples, "kvant_model_seconds_total": seconds})


def snapshot(found: Scrape, at: float = 0.0, resident: int | None = 2000 * MIB) -> Snapshot:
    return Snapshot(at, found, resident, {}, at)


def loaded(after: Scrape | None = None, warm: Scrape | None = None, grown: int = 0, **changes: Any) -> Load:
    """A minute of load; everything is counted from nothing."""
    before = scrape({"step": 0.0, "encode": 0.0, "attend": 0.0}, **NO_TOKENS)
    busy = {"step": 10.0, "encode": 1.0, "attend": 1.5}
    made = Load(
        snapshot(before),
        snapshot(warm or scrape(busy, **NO_TOKENS)),
        snapshot(after or scrape(busy), 60.0, 2000 * MIB + grown),
        prompt=1000, first_token=0.9, gap=0.05, stall=0.5, alone=20.0, together=60.0, streams=8,
        peaks=Peaks(8.0, 0.0, 0.1),
    )  # fmt: skip
    return dataclasses.replace(made, **changes)


def patient(load: Load | str | None = None, **changes: Any) -> Patient:
    service = Service("http://127.0.0.1:8080", "m", 2048, "http://127.0.0.1:8080/metrics")
    made = Patient(
        service.url,
        service,
        200,
        {"status": "ready", "formats": "trellis4/trellis4"},
        load or loaded(),
        SOUND,
    )
    return dataclasses.replace(made, **changes)


def by_name(findings: Iterable[Finding]) -> dict[str, Finding]:
    return {finding.what: finding for finding in findings}


def test_a_sound_service_has_no_fault() -> None:
    for check in SERVICE_CHECKS:
        if check is not garbled.garbled:  # asks for texts
            levels = {finding.what: finding.level for finding in check(patient())}
            assert set(levels.values()) <= {Level.OK, Level.UNKNOWN}, levels


def test_what_does_not_answer_is_not_guessed_at() -> None:
    """Only the start is judged; all else is unknown, with the reason."""
    silent = patient("refused", service="refused", status=None, ready={}, reading="refused")
    found = by_name(examine_running(silent).findings)
    assert found.pop("start").level is Level.FAIL
    assert len(found) == 8
    assert {finding.level for finding in found.values()} == {Level.UNKNOWN}
    assert {finding.why for finding in found.values()} == {"not measured: the service does not answer"}
    assert {finding.mend for finding in found.values()} == {""}


def test_a_service_that_hangs_is_a_timeout_and_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hanging(Stub):
        async def _answer(self, request: Request) -> Response:
            self.seen.append(request.url.path)
            await asyncio.sleep(3)
            return await super()._answer(request)

    stub = Hanging()
    monkeypatch.setattr(patients, "PATIENCE", 0.3)
    with serving(stub) as service:
        asked = Patient.ask(service.url)
        before = len(stub.seen)
        found = by_name(examine_running(asked).findings)
        assert len(stub.seen) == before
    assert (found["timeouts"].level, "without answering" in found["timeouts"].why) == (Level.FAIL, True)
    assert found["start"].level is Level.OK
    for what in ("quality", "garbled output", "first token", "memory (copies)"):
        assert found[what].level is Level.UNKNOWN
        assert found[what].why.endswith("which failed: see timeouts")
    assert found["memory"].level is Level.OK  # /metrics says it without load


class Cutting(Stub):
    """Ends what takes long as a service with so short a serving.timeout does, before its answer or within."""

    async def _answer(self, request: Request) -> Response:
        refusal, body = envelope.timed_out(5), await request.json()
        if body.get("stream"):
            return Response(refusal.event(), media_type="text/event-stream")
        return refusal.response() if body["max_tokens"] > 1 else await super()._answer(request)


def test_a_short_timeout_is_the_cause_and_hides_no_other_check() -> None:
    with serving(Cutting()) as service:
        asked = Patient.ask(service.url, settings=load_settings(None, {"kv_cache.preset": "max"}))
        found = by_name(examine_running(asked).findings)
    assert not asked.hangs
    assert found["timeouts"].level is Level.FAIL
    assert "serving.timeout is 5 s" in found["timeouts"].why
    assert found["timeouts"].mend.startswith("raise serving.timeout")
    assert "restart" not in found["timeouts"].mend
    # -c and /metrics are enough for these.
    assert "trellis4/trellis4 runs" in found["memory (bits)"].why
    assert "651 blocks of 64" in found["memory while ramping"].why
    assert "since it was started" in found["attention"].why
    for what in ("memory (copies)", "first token", "throughput"):
        assert (found[what].level, found[what].why) == (
            Level.UNKNOWN,
            "needs the load, which failed: see timeouts",
        )
    assert sum("'message'" in finding.why for finding in found.values()) == 0


def test_requests_that_fail_are_a_failure_of_the_service() -> None:
    died = "http://127.0.0.1:8080 answered 500: the engine has died"
    (finding,) = latency.timeouts(patient(died))
    assert (finding.level, "the engine has died" in finding.why) == (Level.FAIL, True)
    (finding,) = latency.timeouts(patient("http://127.0.0.1:8080/metrics answers 404"))
    assert (finding.level, "answers 404" in finding.why) == (Level.UNKNOWN, True)


# Memory.


def test_a_cache_that_is_not_quantised_is_named() -> None:
    stock = scrape({}, kvant_effective_bits=16.0, formats="bfloat16 (stock vLLM)")
    finding = by_name(memory.memory(patient(loaded(stock))))["memory"]
    assert (finding.level, "not quantised" in finding.why) == (Level.WARN, True)


def test_wrong_bits_are_more_than_the_format_takes() -> None:
    wide = scrape({}, kvant_effective_bits=6.5, kvant_cache_bytes_per_token=9360.0)
    finding = by_name(memory.memory(patient(loaded(wide))))["memory"]
    assert finding.level is Level.WARN
    assert "6.50 bits" in finding.why
    assert "trellis4/trellis4 takes 4.0" in finding.why


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"kv_cache.preset": "lossless"}, False),
        ({"kv_cache.preset": "max"}, True),
        ({"kv_cache.codec": "trellis", "kv_cache.key_bits": 4, "kv_cache.value_bits": 4}, False),
        ({"kv_cache.codec": "trellis", "kv_cache.key_bits": 4, "kv_cache.value_bits": 3}, True),
        ({"kv_cache.enable_quant": False}, False),
    ],
)
def test_another_cache_than_configured_fails(fields: dict[str, Any], wrong: bool) -> None:
    found = by_name(memory.memory(patient(settings=load_settings(None, fields))))
    assert ("memory (bits)" in found) is wrong
    if wrong:
        assert found["memory (bits)"].level is Level.FAIL
        assert "trellis4/trellis4 runs" in found["memory (bits)"].why


def test_a_preset_that_fell_back_is_told_by_name() -> None:
    fallen = scrape({}, formats="int8/int8", preset="int8", kvant_effective_bits=8.25)
    settings = load_settings(None, {"kv_cache.preset": "lossless"})
    finding = by_name(memory.memory(patient(loaded(fallen), settings=settings)))["memory (bits)"]
    assert "int8 took the place of lossless" in finding.why


def test_memory_that_grows_with_the_tokens_is_a_second_copy() -> None:
    tokens = recorded.scrape().total("vllm:prompt_tokens_total") or 0.0
    assert tokens > 2000
    finding = by_name(memory.memory(patient(loaded(grown=int(tokens * 23_040)))))["memory (copies)"]
    assert (finding.level, "kept a second time" in finding.why) == (Level.FAIL, True)
    assert by_name(memory.memory(patient(loaded(grown=5 * MIB))))["memory (copies)"].level is Level.OK


# Blocks.


def test_a_tiny_pool_preempts() -> None:
    tiny = scrape({}, num_gpu_blocks="20", vllm__num_preemptions_total=9.0)
    finding = by_name(blocks.blocks(patient(loaded(tiny))))["memory while ramping"]
    assert (finding.level, "9 preemptions in 34 requests" in finding.why) == (Level.FAIL, True)
    assert "kvant plan" in finding.mend


def test_a_pool_for_one_long_request_is_named_before_it_preempts() -> None:
    small = scrape({}, num_gpu_blocks="40")
    finding = by_name(blocks.blocks(patient(loaded(small))))["memory while ramping"]
    assert (finding.level, "1.2 requests of the longest" in finding.why) == (Level.WARN, True)


def test_short_requests_in_large_blocks_are_fragmentation() -> None:
    large = scrape({}, block_size="1024")
    finding = by_name(blocks.blocks(patient(loaded(large))))["memory while ramping (fragmentation)"]
    assert (finding.level, "block_size" in finding.mend) == (Level.WARN, True)


def test_blocks_in_use_where_nothing_runs_are_lost() -> None:
    lost = scrape({}, vllm__kv_cache_usage_perc=0.2)
    finding = by_name(blocks.blocks(patient(loaded(lost))))["memory while ramping (leaks)"]
    assert (finding.level, "20.0% of the blocks" in finding.why) == (Level.FAIL, True)


# Speed.


def test_the_slow_path_is_named_with_the_better_one() -> None:
    slow = scrape({"step": 10.0, "encode": 1.0, "attend": 4.0}, kernel="generic")
    (finding,) = attention.attention(patient(loaded(slow)))
    assert (finding.level, select()[0].name in finding.why) == (Level.WARN, True)
    assert "40% of the steps' time" in finding.why


def test_a_kernel_of_another_machine_is_not_guessed_at() -> None:
    away = Service("http://192.0.2.1", "m", 2048, "http://192.0.2.1/metrics")
    (finding,) = attention.attention(patient(service=away))
    assert finding.level is Level.UNKNOWN


def test_encoding_that_is_dear_makes_the_first_token_late() -> None:
    dear = scrape({"step": 10.0, "encode": 6.0, "attend": 1.0}, **NO_TOKENS)
    (finding,) = attention.first_token(patient(loaded(warm=dear)))
    assert (finding.level, "encoding takes 60%" in finding.why) == (Level.WARN, True)


def test_a_queue_makes_the_first_token_late_and_is_not_taken_for_the_cache() -> None:
    times = {"request_queue_time": 34 * 8.0, "time_to_first_token": 34 * 9.0}
    slow = scrape(
        {"step": 0.0, "encode": 0.0}, **{f"vllm__{name}_seconds_sum": total for name, total in times.items()}
    )
    before = dataclasses.replace(loaded(), before=snapshot(slow))
    (finding,) = attention.first_token(patient(before))
    assert (finding.level, "8.00 are spent in the queue" in finding.why) == (Level.WARN, True)


def test_requests_that_are_cut_and_prompts_that_block() -> None:
    text = recorded.TEXT + 'kvant_requests_rejected_total{reason="timeout"} 5.0\n'
    found = by_name(latency.timeouts(patient(loaded(Scrape.of(text), stall=6.0))))
    assert found["timeouts"].level is Level.FAIL
    assert "5 cut by serving.timeout" in found["timeouts"].why
    assert found["timeouts (long prompts)"].level is Level.WARN
    assert "max_num_batched_tokens" in found["timeouts (long prompts)"].mend


@pytest.mark.parametrize(
    ("running", "usage", "most", "mend"),
    [
        (2.0, 0.05, None, "serving.max_batch"),
        (2.0, 0.05, 2, "serving.max_batch"),
        (5.0, 0.6, 8, "kv_cache.memory_gib"),
        (5.0, 0.99, None, "kv_cache.memory_gib"),
    ],
)
def test_requests_that_wait_while_few_run(running: float, usage: float, most: int | None, mend: str) -> None:
    """For a batch that is too small, or for blocks: where the batch is larger than what ran, for blocks."""
    settings = load_settings(None, {"serving.max_batch": most}) if most else None
    few = patient(loaded(peaks=Peaks(running, 3.0, usage)), settings=settings)
    finding = by_name(threads.throughput(few))["throughput (batching)"]
    assert finding.level is Level.WARN
    assert [name for name in ("serving.max_batch", "kv_cache.memory_gib") if name in finding.mend] == [mend]


# Quality.


@pytest.mark.parametrize(
    ("near", "harm", "level", "says"),
    [
        (3.3, Interval(-0.3, -0.4, -0.2), Level.OK, "--baseline"),
        (3.3, Interval(0.9, 0.5, 1.2), Level.FAIL, "the cache does harm"),
        (3.3, Interval(-0.1, -0.4, 0.2), Level.WARN, "does not clearly help"),
        (9.5, Interval(0.0, -0.1, 0.1), Level.FAIL, "weights or the tokeniser"),
    ],
)
def test_weights_and_cache_are_told_apart(near: float, harm: Interval, level: Level, says: str) -> None:
    finding = quality.by_itself(Reading(near, near + harm.value, harm, 400))
    assert (finding.level, says in finding.why) == (level, True)
    told = garbled.cause(Reading(near, near + harm.value, harm, 400))
    assert ("weights, not the cache" in told) is (near > 7)
    assert ("much context badly" in told) is (near < 7 and harm.low > 0)


def test_drift_is_told_only_where_it_was_sampled() -> None:
    assert list(quality.drift(patient())) == []
    alarm = scrape({}, kvant_drift_alarm=1.0, kvant_drift_samples=50.0)
    (finding,) = quality.drift(patient(loaded(alarm)))
    assert (finding.level, "--from-traffic" in finding.mend) == (Level.WARN, True)


# Start.


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("error: [Errno 98] Address already in use", "another process listens"),
        ("error: model.safetensors: its SHA-256 is 1234, the manifest says 5678", "a file is damaged"),
        ("error: /r: the recipe was made for another model", "other weights"),
        ("error: serving.max_context: 8192 tokens do not fit kv_cache.max_cache_blocks 8", "does not fit"),
        ("RuntimeError: DefaultCPUAllocator: can't allocate memory", "memory ran out"),
        ("error: vLLM refuses its options: unrecognized arguments: --foo", "an option is wrong"),
        ("RuntimeError: operator torchvision::nms does not exist", "beside torch"),
        ("ValueError: something new", "no known cause; its last error: ValueError: something new"),
    ],
)
def test_a_log_is_explained(line: str, says: str) -> None:
    finding = by_name(start.of_log(f"INFO starting\n{line}\n", False))["start (log)"]
    assert (finding.level, says in finding.why) == (Level.FAIL, True), finding
    assert finding.mend


@pytest.mark.parametrize(
    ("phase", "level"), [("loading", Level.WARN), ("draining", Level.WARN), ("failed", Level.FAIL)]
)
def test_ready_says_why_not(phase: str, level: Level) -> None:
    found = list(start.start(patient(status=503, ready={"status": phase, "reason": "because"})))
    assert [(finding.level, "because" in finding.why) for finding in found] == [(level, True)]


def test_another_server_is_not_taken_for_ours() -> None:
    (finding,) = start.start(patient(status=404, ready={}))
    assert finding.level is Level.UNKNOWN


def test_a_page_that_answers_everything_is_no_service() -> None:
    async def page(request: Request) -> Response:
        return PlainTextResponse("please log in")

    with listening(Starlette(routes=[Route("/{path:path}", page)])) as url:
        found = by_name(examine_running(Patient.ask(url)).findings)
    start_ = found.pop("start")
    assert start_.level is Level.FAIL
    assert "something else answers" in start_.why
    assert {finding.why for finding in found.values()} == {"not measured: see start"}
    assert {finding.mend for finding in found.values()} == {""}


def test_a_foreign_server_is_one_finding() -> None:
    async def page(request: Request) -> Response:
        return PlainTextResponse("<html>\n  <body>not\nhere</body>", 404)

    with listening(Starlette(routes=[Route("/{path:path}", page)])) as url:
        found = by_name(examine_running(Patient.ask(url)).findings)
    start_ = found.pop("start")
    assert start_.level is Level.FAIL
    assert start_.why.endswith("/v1/models answers 404: a page of HTML")
    assert {finding.why for finding in found.values()} == {"not measured: see start"}


def test_ready_that_says_nothing_is_not_taken_for_ready() -> None:
    (finding,) = start.start(patient(ready={}))
    assert finding.level is Level.UNKNOWN


def test_a_key_that_is_missing_is_named_at_the_start_only() -> None:
    with serving(Stub(key="sk-a")) as service:
        found = by_name(examine_running(Patient.ask(service.url)).findings)
    assert found.pop("start").level is Level.OK
    assert "KVANT_GATE_API_KEY" in found.pop("start (model)").mend
    assert {finding.why for finding in found.values()} == {"not measured: see start"}


def test_scoring_is_advised_only_where_the_server_lacks_it() -> None:
    lacks = "http://x/v1: does not score given text: its answer has no `prompt_logprobs`"
    (finding,) = quality.quality(patient(reading=lacks))
    assert finding.mend == quality.SCORING
    (finding,) = quality.quality(patient(reading="http://x/v1: BadRequestError: 1,400 tokens, at most 512"))
    assert finding.mend == ""


def test_a_stream_that_comes_in_one_piece_is_not_timed() -> None:
    with pytest.raises(EngineError, match="48 tokens of a stream came in one piece"):
        loads._gaps(Stream(0.0, [(1.0, 48)]))


@pytest.mark.parametrize("longest", ["2048", 0, True])
def test_a_longest_context_that_is_no_number_is_refused(longest: object) -> None:
    async def models(request: Request) -> Response:
        return JSONResponse({"data": [{"id": "m", "max_model_len": longest}]})

    with (
        listening(Starlette(routes=[Route("/v1/models", models)])) as url,
        pytest.raises(EngineError, match="something else than a list of models"),
    ):
        Service.find(url)

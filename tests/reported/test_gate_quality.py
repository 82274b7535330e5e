"""Reported failures H5-16, H5-18 and H5-20, as far as the gate has to see them: a collapse is a fail.

The quick ones judge what a simulated model expects; the slow ones serve real models.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from kvant.cache import CacheSpec
from kvant.quality.gate.arm import Arm
from kvant.quality.gate.client import Client, Scored
from kvant.quality.gate.material import Ruler
from kvant.quality.gate.outcome import Outcome
from kvant.quality.gate.run import gate
from kvant.quality.gate.settings import Fidelity as Options
from kvant.quality.gate.settings import Needle, Settings
from kvant.quality.gate.suites import long
from kvant.quality.gate.suites.base import Judgement, Pair
from kvant.quality.gate.suites.fidelity import Fidelity
from kvant.quality.gate.verdict import Verdict, worst
from kvant.quality.simulated.model import Simulator
from kvant.quality.simulated.spec import scheme_of
from tests.e2e.server import Server, serving
from tests.engine.run import prompt
from tests.reported.test_model_quality import biased, calibrated

__all__ = ["biased"]

TOP = 20


def scored(simulator: Simulator, ids: list[int], fields: dict[str, Any] | None) -> Scored:
    """What the API would tell of a text: the likeliest tokens of each position, and the next one."""
    scheme = scheme_of(CacheSpec.from_json(fields), simulator.shape) if fields else None
    states = simulator.states(ids, scheme) if scheme else simulator.states(ids)
    logs = torch.log_softmax(simulator.logits(states[:-1]).double(), -1)
    expected = []
    for row, target in zip(logs, ids[1:], strict=True):
        tokens = {*row.topk(TOP).indices.tolist(), target}
        expected.append({token: float(row[token]) for token in tokens})
    words = tuple(map(str, ids))
    return Scored(tuple(ids), words, tuple(expected), tuple({t: str(t) for t in one} for one in expected))


def judge(simulator: Simulator, texts: list[list[int]], fields: dict[str, Any], **options: Any) -> Judgement:
    suite = Fidelity(Options(**options))
    pairs = [Pair(_Text(), scored(simulator, ids, None), scored(simulator, ids, fields)) for ids in texts]
    return suite.judge(pairs, 0.05)


class _Text:
    kind = "text"


def test_h5_16_the_gate_fails_a_collapse_and_passes_what_mends_it(biased: Simulator, tmp_path: Path) -> None:
    """The same bits: rotated alone, with a recent window and sinks, and calibrated. A random model's logits
    are flat, so its margin is wider than that of one that was trained."""
    plain = {"key": "codebook4", "value": "codebook4"}
    near = {"sinks": 4, "window": 64}
    gm = calibrated(biased, prompt(512, seed=9), tmp_path / "gm.safetensors")
    texts = [prompt(512, seed=seed) for seed in (0, 1)]
    found = {
        name: judge(biased, texts, fields, kl=0.25, top1=0.5, perplexity=0.5)
        for name, fields in {"rotated": plain, "near": plain | near, "gm": plain | near | gm}.items()
    }
    verdicts = {name: worst(check.verdict for check in one.checks) for name, one in found.items()}
    values = {name: one.checks[0].value for name, one in found.items()}
    assert verdicts == {"rotated": Verdict.FAIL, "near": Verdict.FAIL, "gm": Verdict.PASS}, values


def test_h5_20_what_the_gate_measures_falls_strictly_as_bits_rise(simulator: Simulator) -> None:
    """KL over the API's lists, not only the error of the codes."""
    text = prompt(320)
    for names in (("trellis2", "trellis3", "trellis4"), ("codebook2", "codebook3", "codebook4", "int8")):
        kl = [judge(simulator, [text], {"key": n, "value": n}).checks[0].value for n in names]
        assert all(wide < narrow for narrow, wide in itertools.pairwise(kl)), dict(
            zip(names, kl, strict=True)
        )


@pytest.fixture(scope="session")
def simulator(models: Any) -> Simulator:
    return Simulator(models("llama"), "float32")


# With real models.


@contextmanager
def served(folder: Path, model: str, cache: dict[str, Any], context: int) -> Iterator[Server]:
    folder.mkdir()
    settings = {
        "model": {"path": model},
        "kv_cache": {"memory_gib": 0.5, **cache},
        "serving": {"max_context": context, "max_batch": 4},
        "engine": {"max_num_batched_tokens": 512},
    }
    with serving(folder, settings) as server:
        server.wait()
        yield server


def gated(control: Server, candidate: Server, context: int, **sections: Any) -> Outcome:
    arms = [Arm(one.url, None, context) for one in (control, candidate)]
    settings = Settings(suites=tuple(sections), max_context=context, **sections)
    return gate(arms[0], arms[1], settings, {}, lambda *_: None)


QWEN, SMOLLM2 = "qwen2.5-coder-0.5b-instruct", "smollm2-135m-instruct"
FOUR = {"codec": "codebook", "key_bits": 4, "value_bits": 4}


@pytest.mark.slow
@pytest.mark.parametrize("model", [QWEN, SMOLLM2])
def test_h5_16_twenty_tasks_at_1400_tokens_by_model(model: str, tmp_path: Path) -> None:
    """Never averaged over models. Plain 4 bits collapse on Qwen2.5, whose keys have biased channels, and are
    failed; `lossless` keeps at least 95 % of what 16 bits find, on both."""
    needle = Needle(lengths=(1400,), depths=(0.0, 0.25, 0.5, 0.75, 1.0), keys=(1,), trials=4, loss=0.3)
    fidelity = Options(texts=2, tokens=768)
    with (
        served(tmp_path / "control", model, {"enable_quant": False}, 2048) as control,
        served(tmp_path / "lossless", model, {"preset": "lossless"}, 2048) as sound,
    ):
        outcome = gated(control, sound, 2048, needle=needle, fidelity=fidelity)
        before, after = outcome.results[0].judgement.scores["right"]
        assert before >= 0.8  # there was something to lose
        assert after >= 0.95 * before
        assert outcome.results[1].verdict is Verdict.PASS, outcome.results[1]
    with (
        served(tmp_path / "again", model, {"enable_quant": False}, 2048) as control,
        served(tmp_path / "four", model, FOUR, 2048) as collapsed,
    ):
        outcome = gated(control, collapsed, 2048, needle=needle, fidelity=fidelity)
        assert outcome.verdict is Verdict.FAIL
        if model == QWEN:
            before, after = outcome.results[0].judgement.scores["right"]
            assert after < 0.95 * before  # what a recommended mode keeps; some numbers are found all the same
            assert outcome.results[1].verdict is Verdict.FAIL


@pytest.mark.slow
def test_h5_18_kl_fails_at_2k_and_7k_though_the_text_reads_well(tmp_path: Path) -> None:
    """`founding` writes fluent text and has a KL of .14: only what it expects gives it away."""
    with (
        served(tmp_path / "control", SMOLLM2, {"enable_quant": False}, 8192) as control,
        served(tmp_path / "founding", SMOLLM2, {"preset": "founding"}, 8192) as candidate,
    ):
        for tokens in (2048, 7168):
            outcome = gated(control, candidate, 8192, fidelity=Options(texts=1, tokens=tokens))
            kl, top1, _ = outcome.results[0].judgement.checks
            assert (kl.verdict, top1.verdict) == (Verdict.FAIL, Verdict.FAIL), (tokens, kl, top1)
        asked = Client(candidate.url)
        tasks = next(long.Long(Settings().long).tasks(random.Random(0), Ruler(4.0, 4.0)))[:3]
        answers = [asked.complete(task.prompt, 128, temperature=0.8, seed=task.seed) for task in tasks]
        assert [long.defect(task, one, 128) for task, one in zip(tasks, answers, strict=True)] == ["", "", ""]

"""Two real arms on real sockets score what they were built with."""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from kvant.errors import ConfigError, EngineError
from kvant.gateway.answers import compare, golden, patrol
from kvant.gateway.answers.compare import agreed
from kvant.gateway.answers.comparer import AGAIN, Comparer
from kvant.gateway.answers.examples import Example, Examples
from kvant.gateway.answers.finished import Answer
from kvant.gateway.answers.score import SINKS, Scorer
from kvant.gateway.answers.settings import Comparing, Patrol
from kvant.gateway.arms.arm import Arm
from kvant.gateway.arms.asker import ArmAsker
from kvant.gateway.arms.replica import Replica
from kvant.gateway.arms.upstream import Upstream
from kvant.gateway.call import Call, Served
from kvant.quality.gate.recorded import Prompt
from kvant.rollout.evidence import BASELINE, CANDIDATE, Comparison, Serving
from tests.gateway.engine import MODEL, Engine

T = TypeVar("T")
ALL = Comparing(share=1.0, per_minute=1000, in_flight=100)
ANSWER = "one two three four five"
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


@pytest.fixture(scope="module")
def engines() -> Iterator[tuple[Engine, Engine]]:
    with Engine(per_token=0.0, first=0.0) as baseline, Engine(per_token=0.0, first=0.0) as candidate:
        yield baseline, candidate


@pytest.fixture
def arms(engines: tuple[Engine, Engine]) -> tuple[Engine, Engine]:
    for engine in engines:
        engine.fault, engine.writes, engine.logprob = "", "", -0.5
        engine.requests.clear()
    return engines


def asking(arms: tuple[Engine, Engine], ask: Callable[[ArmAsker], Awaitable[T]]) -> T:
    """What comes of it, with a real asker to both arms."""

    async def work() -> T:
        upstream = Upstream(5.0)
        named = zip((BASELINE, CANDIDATE), arms, strict=True)
        try:
            return await ask(ArmAsker({n: Arm(n, [Replica(one.url, 64)]) for n, one in named}, upstream))
        finally:
            await upstream.close()

    return asyncio.run(work())


def call(body: dict[str, Any] | None = None, path: str = CHAT, id: str = "c") -> Call:
    asked = {"model": MODEL, "messages": [{"role": "user", "content": "how many are there"}]}
    return Call(id, path, asked if body is None else {"model": MODEL, **body}, "", "")


def served(call: Call, arm: str = BASELINE, text: str = ANSWER, **fields: Any) -> Served:
    return Served(call, arm, "", fields.pop("status", 200), 0.1, text=text, finish="stop", tokens=5, **fields)


def kl(p: list[float], q: list[float]) -> float:
    """Of two distributions over the same tokens and one rest, from log-probabilities."""
    ps, qs = ([math.exp(x) for x in one] for one in (p, q))
    rest = [1 - sum(one) for one in (ps, qs)]
    return sum(a * math.log(a / b) for a, b in zip([*ps, rest[0]], [*qs, rest[1]], strict=True))


@pytest.mark.parametrize("path", [CHAT, TEXT])
@pytest.mark.parametrize(("mine", "theirs"), [(-0.5, -0.5), (-0.5, -0.6), (-0.9, -0.2)])
def test_the_divergence_is_what_the_arms_were_built_with(
    arms: tuple[Engine, Engine], path: str, mine: float, theirs: float
) -> None:
    arms[0].logprob, arms[1].logprob = mine, theirs
    asked = call() if path == CHAT else call({"prompt": "how many are there"}, TEXT)
    settings = Comparing(top=3)
    found = asking(arms, lambda asker: compare.scored(Scorer(asker, settings), asked, ANSWER))
    assert found is not None
    expected = kl(*([one - 2 * n for n in range(3)] for one in (mine, theirs)))
    assert found.divergence == pytest.approx(expected, abs=1e-9)
    assert (found.agreement, found.positions, found.parted) == (1.0, 5, None)
    for engine in arms:
        scoring = [one["body"] for one in engine.requests if "prompt_logprobs" in one["body"]]
        assert len(scoring) == 1, "asked once, only for scores"
        assert scoring[0]["max_tokens"] == 1
    assert arms[0].requests[-1]["body"]["prompt"] == arms[1].requests[-1]["body"]["prompt"]
    assert arms[0].requests[-1]["headers"]["x-request-priority"] == "batch"


def test_long_prompts_keep_their_first_and_last_tokens(arms: tuple[Engine, Engine]) -> None:
    words = [f"w{n}" for n in range(500)]
    settings = Comparing(prompt=20, answer=3)
    asked = call({"prompt": " ".join(words)}, TEXT)
    found = asking(arms, lambda asker: compare.scored(Scorer(asker, settings), asked, ANSWER))
    assert found is not None
    assert found.positions == 3
    (scoring,) = (one["body"] for one in arms[1].requests)
    assert scoring["prompt"][:20] == [*range(SINKS), *range(500 - 20 + SINKS, 500)]
    assert len(scoring["prompt"]) == 23


def test_the_template_is_given_what_the_chat_gave_it(arms: tuple[Engine, Engine]) -> None:
    """vLLM 0.32: `reasoning_effort` and `documents` are fields of a chat, but not of /tokenize."""
    seen: list[Any] = []

    class Heard:
        async def ask(self, arm: str, path: str, body: Any, **_: Any) -> Any:
            seen.append(body)
            return {"tokens": [1]}

        def load(self, arm: str) -> float:
            return 0.0

    asked = call({**call().body, "reasoning_effort": "low", "chat_template_kwargs": {"a": 1}, "top_p": 0.5})
    asyncio.run(Scorer(Heard(), Comparing()).reading(BASELINE, asked, ANSWER))
    kwargs = {"a": 1, "reasoning_effort": "low", "enable_thinking": True}
    assert seen[0] == {"model": MODEL, "messages": asked.body["messages"], "chat_template_kwargs": kwargs}
    assert seen[1] == {"model": MODEL, "prompt": ANSWER, "add_special_tokens": False}


def test_token_ids_are_read_as_they_are(arms: tuple[Engine, Engine]) -> None:
    asked = call({"prompt": [7, 8, 9], "cache_salt": "of-this-key"}, TEXT)
    asking(arms, lambda asker: compare.scored(Scorer(asker, Comparing(priority=7)), asked, "w1 w2"))
    (scoring,) = (one["body"] for one in arms[1].requests)
    assert scoring["prompt"] == [7, 8, 9, 1, 2]
    assert (scoring["cache_salt"], scoring["priority"]) == ("of-this-key", 7)


@dataclass
class Desk:
    """A comparer, what it found, and a clock that stands still."""

    settings: Comparing = ALL
    keep: bool = True
    found: list[Comparison] = field(default_factory=list)
    failures: list[Serving] = field(default_factory=list)
    now: float = 0.0

    def __post_init__(self) -> None:
        self.examples = Examples(self.settings.examples, self.keep)

    def of(self, arms: tuple[Engine, Engine], *work: Callable[[Comparer], object]) -> Counter[str]:
        """Each piece of work is done before the next begins."""

        async def ask(asker: ArmAsker) -> Counter[str]:
            comparer = Comparer(
                self.settings, asker, lambda: self.now, self.found.append, self._signs, self.examples,
                draw=lambda: 0.5, failed=self.failures.append,
            )  # fmt: skip
            for one in work:
                one(comparer)
                while len(comparer._background):
                    await asyncio.sleep(0.005)
            self.failed = comparer.failed
            return +comparer.skipped

        return asking(arms, ask)

    def _signs(self, call: Call, answer: Answer) -> tuple[str, ...]:
        return ("repetition",) if "loop" in answer.text else ()


def test_a_served_call_is_compared(arms: tuple[Engine, Engine]) -> None:
    arms[1].logprob = -0.8
    desk = Desk()
    assert desk.of(arms, lambda c: c.ended(served(call(), CANDIDATE))) == {}
    (one,) = desk.found
    assert one.divergence is not None
    assert one.divergence > 0.01
    assert (one.agreement, one.positions, one.id) == (1.0, 5, "c")
    assert (one.degenerate_baseline, one.degenerate_candidate) == (False, False)


def test_both_answers_of_a_pair_are_judged(arms: tuple[Engine, Engine]) -> None:
    desk = Desk()
    desk.of(
        arms, lambda c: c.pair(served(call()), Answer("loop loop")), lambda c: c.pair(served(call()), None)
    )
    (found,) = desk.found
    assert (found.degenerate_baseline, found.degenerate_candidate) == (False, True)


def test_what_is_not_compared_is_counted(arms: tuple[Engine, Engine]) -> None:
    image = [{"type": "text", "text": "what is it"}, {"type": "image_url", "image_url": {"url": "data:,"}}]
    body = call().body
    calls = [
        served(call({"messages": [{"role": "user", "content": image}]})), served(call(), text=""),
        served(call({**body, "n": 2})), served(call(), status=500, error="arm"),
        served(call(), tripped="script"),
    ]  # fmt: skip
    desk = Desk()
    assert desk.of(arms, *(lambda c, one=one: c.ended(one) for one in calls)) == {"kind": 3, "ended": 2}
    assert Desk(Comparing(share=0.5)).of(arms, lambda c: c.ended(served(call()))) == {"sample": 1}
    three = [lambda c: c.ended(served(call()))] * 3
    assert Desk(Comparing(share=1.0, per_minute=2)).of(arms, *three) == {"rate": 1}
    at_once = lambda c: [c.ended(served(call())) for _ in range(5)]  # noqa: E731
    assert Desk(Comparing(share=1.0, in_flight=2)).of(arms, at_once) == {"in_flight": 3}


def test_an_arm_that_fails_is_no_divergence(arms: tuple[Engine, Engine]) -> None:
    arms[1].fault = "500"
    desk = Desk()
    desk.of(arms, lambda c: c.ended(served(call())))
    assert (desk.found, desk.failed) == ([], 1)


@pytest.mark.parametrize("failing", [{"logprob": math.nan}, {"fault": "500"}, {"fault": "echo"}])
def test_what_the_candidate_alone_fails_to_score_three_times_in_a_row_is_held_against_it(
    arms: tuple[Engine, Engine], caplog: pytest.LogCaptureFixture, failing: dict[str, Any]
) -> None:
    """`echo` refuses: vLLM answers 400 where its log-probabilities are no numbers."""
    desk = Desk()
    ask = lambda c: c.ended(served(call()))  # noqa: E731

    def all_arms(*engines: Engine) -> Callable[[Comparer], None]:
        def set_faults(_: Comparer) -> None:
            for engine in arms:
                engine.logprob, engine.fault = -0.5, ""
            for engine in engines:
                for name, value in failing.items():
                    setattr(engine, name, value)

        return set_faults

    alone = all_arms(arms[1])
    desk.of(arms, alone, ask, ask, all_arms(), ask, alone, ask, ask)
    assert desk.failures == [], "chance"
    assert len(desk.found) == 1
    desk.of(arms, alone, ask, ask, ask, ask)
    assert [(one.arm, one.failed, one.shadow) for one in desk.failures] == [(CANDIDATE, True, True)] * 2
    assert [one.getMessage().count("counts as failures") for one in caplog.records] == [1]
    desk.failures.clear()
    desk.of(arms, all_arms(*arms), *[ask] * 5)
    assert desk.failures == [], "both fail: nothing of the candidate"


def test_where_an_arm_cannot_score_answers_are_compared(
    arms: tuple[Engine, Engine], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An engine of another make: no prompt_logprobs in its answer. Said once, and tried again later."""
    from tests.gateway import engine

    scores = engine.Writing.prompt_logprobs
    monkeypatch.setattr(engine.Writing, "prompt_logprobs", lambda self: None)
    arms[0].writes, arms[1].writes = "one two three four", "one two THREE four"
    desk = Desk()
    again = lambda c: c.ended(served(call()))  # noqa: E731

    def later(comparer: Comparer) -> None:
        monkeypatch.setattr(engine.Writing, "prompt_logprobs", scores)
        desk.now = AGAIN + 1
        again(comparer)

    desk.of(arms, again, again, later)
    first, second, third = desk.found
    assert (first.divergence, first.positions) == (None, 3)
    assert first.agreement == second.agreement == pytest.approx(2 / 3)
    assert third.divergence == pytest.approx(0, abs=1e-9)
    assert [one.getMessage().count("does not score") for one in caplog.records] == [1]
    (example,) = desk.examples.newest()
    assert (example.shared, example.baseline, example.candidate) == ("one two ", "three four", "THREE four")
    greedy = [one["body"] for one in arms[1].requests if "prompt_logprobs" not in one["body"]]
    assert [one["temperature"] for one in greedy] == [0, 0]


@pytest.mark.parametrize(
    ("before", "after", "agreement", "positions"),
    [
        ("a b c", "a b c", 1.0, 3),
        ("a b c", "a b d e", 2 / 3, 3),
        ("a", "b", 0.0, 1),
        ("a b", "a b c", 2 / 3, 3),
    ],
)
def test_answers_agree_up_to_where_they_part(
    before: str, after: str, agreement: float, positions: int
) -> None:
    found = agreed(before, after)
    assert found is not None
    assert (found.agreement, found.positions) == (pytest.approx(agreement), positions)
    assert agreed("", " ") is None


def test_an_example_shows_where_two_greedy_answers_part(arms: tuple[Engine, Engine]) -> None:
    desk, other = Desk(), Answer("one two THREE")
    greedy, sampled = call({**call().body, "temperature": 0}, id="greedy"), call(id="sampled")
    desk.of(arms, lambda c: c.pair(served(greedy), other), lambda c: c.pair(served(sampled), other))
    (one,) = desk.examples.newest()
    assert (one.id, one.prompt, one.shared) == ("greedy", "how many are there", "one two ")
    assert (one.baseline, one.candidate, one.position) == ("three four five", "THREE", 2)
    assert one.divergence == desk.found[0].divergence is not None


def test_examples_are_kept_only_where_prompts_may_be(arms: tuple[Engine, Engine]) -> None:
    for keep, shown in ((True, 1), (False, 0)):
        desk = Desk(keep=keep)
        asked = call({"prompt": [1, 2, 3]}, TEXT)
        found = compare.Apart(0.1, 0.5, 2, 1, "a", "b", "c")
        if desk.examples.wanted:
            desk.examples.add(found.example(asked, 1.0))
        assert len(desk.examples.newest()) == shown


def test_examples_are_few_new_and_deletable() -> None:
    examples = Examples(3, allowed=True)
    for n in range(5):
        examples.add(Example(f"c{n}", n, "p", "s", "b", "c", 0, None))
    assert [one.id for one in examples.newest()] == ["c4", "c3", "c2"]
    assert examples.delete("c3") is True
    assert examples.delete("c3") is False
    assert [one.id for one in examples.newest()] == ["c4", "c2"]
    assert "prompt" not in repr(examples.newest()[0])


# Patrol


def seen(divergence: float | None, agreement: float = 0.9) -> Comparison:
    return Comparison(0.0, divergence, agreement, 10)


class Watch:
    """A patrol, and the events that it told."""

    def __init__(self, **settings: Any) -> None:
        self.events: list[tuple[str, bool]] = []
        self.patrol = patrol.Patrol(
            Patrol(**settings), lambda name, raised, _: self.events.append((name, raised))
        )

    def learn(self, *values: float, released: bool = True) -> None:
        for value in values:
            self.patrol.learn(seen(value), released)


def test_drift_is_raised_and_cleared_with_hysteresis() -> None:
    watch = Watch(window=10, raised=2.0, cleared=1.5)
    watch.learn(*[0.05] * 10, *[0.01] * 10, released=False)
    watch.learn(*[0.01] * 9)
    assert watch.patrol.ratios == {}, "not before the window is full"
    watch.learn(*[0.01] * 20, *[0.018] * 20)
    assert (watch.patrol.raised, watch.events) == (False, [])
    watch.learn(*[0.04] * 10)
    assert watch.patrol.raised
    assert watch.patrol.ratios == {"divergence": pytest.approx(4.0)}
    watch.learn(*[0.018] * 10)
    assert watch.patrol.raised, "between the two levels it stays"
    watch.learn(*[0.01] * 10)
    assert watch.events == [("divergence", True), ("divergence", False)]


def test_the_level_is_learnt_where_none_was_measured() -> None:
    watch = Watch(window=5)
    watch.learn(*[0.5] * 4, released=False)
    watch.learn(*[0.003] * 5, *[0.02] * 5)
    assert watch.events == [("divergence", True)]


def test_another_release_begins_anew() -> None:
    watch = Watch(window=5)
    watch.learn(*[0.003] * 5, *[0.02] * 5)
    watch.learn(*[0.02] * 5, released=False)
    assert not watch.patrol.raised
    watch.learn(*[0.02] * 10)
    assert watch.patrol.ratios == {"divergence": pytest.approx(1.0)}


def test_scales_are_not_mixed() -> None:
    watch = Watch(window=5)
    for agreement in [0.98] * 5 + [0.5] * 5:
        watch.patrol.learn(seen(None, agreement), True)
    for agreement in [0.5] * 10:
        watch.patrol.learn(seen(None, agreement), True, golden=True)
    assert watch.events == [("disagreement", True)]
    assert set(watch.patrol.ratios) == {"disagreement", "golden"}


def test_noise_below_what_counts_is_no_drift() -> None:
    watch = Watch(window=5)
    watch.learn(*[1e-9] * 5, released=False)
    watch.learn(*[1e-5] * 20)
    assert watch.events == []


def test_golden_prompts_are_recorded_and_asked_again(arms: tuple[Engine, Engine], tmp_path: Path) -> None:
    file = tmp_path / "golden.jsonl"
    prompts = [Prompt(prompt="tell me"), Prompt(messages=({"role": "user", "content": "and me"},), tokens=5)]
    assert asking(arms, lambda asker: golden.record(asker, MODEL, prompts, file, 5.0)) == 2
    assert list(tmp_path.iterdir()) == [file]
    known = golden.read(file)
    assert [one.tokens for one in known] == [golden.TOKENS, 5]
    found: list[Comparison] = []

    async def ask(asker: ArmAsker) -> None:
        rounds = patrol.rounds(asker, MODEL, known, 0.01, found.append, lambda: 1.0)
        task = asyncio.ensure_future(rounds)
        while len(found) < 3:
            await asyncio.sleep(0.01)
        arms[1].writes = "something else"
        seen = len(found)
        while len(found) < seen + 3:
            await asyncio.sleep(0.01)
        task.cancel()

    asking(arms, ask)
    assert [one.agreement for one in found[:2]] == [1.0, 1.0]
    assert found[-1].agreement == 0.0
    assert {one.divergence for one in found} == {None}


def test_golden_files_without_answers_are_refused(arms: tuple[Engine, Engine], tmp_path: Path) -> None:
    file = tmp_path / "golden.jsonl"
    file.write_text(json.dumps({"prompt": "a", "answers": ["b"]}) + "\n" + json.dumps({"prompt": "c"}) + "\n")
    with pytest.raises(ConfigError, match=r"golden\.jsonl: prompt 2 has no `answers`"):
        golden.read(file)
    arms[0].fault = "500"
    with pytest.raises(EngineError):
        asking(arms, lambda asker: golden.record(asker, MODEL, [Prompt(prompt="a")], tmp_path / "n", 5.0))
    assert not (tmp_path / "n").exists()

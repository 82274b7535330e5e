"""A list goes on where it was killed, keeps failures, and does not mix what two services have shown."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kvant.config import load
from kvant.errors import ConfigError
from kvant.launch import report
from kvant.launch.checklist import Request, run
from kvant.launch.notebook import Notebook
from kvant.launch.result import Item, Step, Verdict, worst
from kvant.launch.settings import Settings, Soak, Speed
from tests.launch import recorded
from tests.launch.stub import Stub, serving

LIMITS = Settings(
    speed=Speed(prompt=16, answer=8, rounds=1),
    soak=Soak(seconds=1, streams=1),
    rules=Path("/no-rules-here.yml"),  # promtool has its tests in test_alerts.py
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KVANT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def asked(url: str, limits: Settings = LIMITS, **changes: object) -> Request:
    settings = load(None, {"serving.max_batch": 1})
    return Request(None, settings, limits, (), url, **changes)  # type: ignore[arg-type]


def go(request: Request) -> dict[str, Step]:
    return {step.name: step for step in run(request, lambda step, what: None)}


def test_a_second_run_asks_nothing_that_is_known_and_a_fresh_one_everything() -> None:
    stub = Stub()
    with serving(stub) as service:
        first = go(asked(service.url))
        left = {name: step.verdict for name, step in first.items() if name.startswith("gate")}
        assert left == dict.fromkeys(("gate fidelity", "gate needle", "gate golden"), Verdict.NOT_RUN)
        assert worst([Verdict.PASS, *left.values()]) is Verdict.NOT_RUN  # which is not pass
        before = len(stub.seen)
        second = go(asked(service.url))
        assert len(stub.seen) == before
        assert [second[name].seconds for name in ("speed", "soak")] == [
            first[name].seconds for name in ("speed", "soak")
        ]
        go(asked(service.url, fresh=True))
    assert len(stub.seen) > before + 8  # the interface alone asks so often


def test_other_limits_are_another_question_of_that_step_only() -> None:
    with serving(Stub()) as service:
        go(asked(service.url))
        strict = LIMITS.model_copy(update={"speed": Speed(prompt=16, answer=8, rounds=1, throughput=1e9)})
        found = go(asked(service.url, strict))
    assert found["speed"].verdict is Verdict.FAIL
    assert found["interface"].verdict is Verdict.PASS


def test_rules_that_were_edited_are_another_question(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yml"
    limits = LIMITS.model_copy(update={"rules": rules})
    with serving(Stub()) as service:
        found = []
        for text in ("groups: [", "groups: [", "groups: []"):
            rules.write_text(text)
            found.append(go(asked(service.url, limits))["alerts"])
    assert (found[0].items, found[0].earlier) == (found[1].items, "")
    assert found[1].earlier.endswith("UTC")
    assert found[0].items != found[2].items


def test_results_of_another_cache_do_not_count() -> None:
    stub = Stub()
    with serving(stub) as service:
        go(asked(service.url))
        stub.metrics = recorded.text(identity="another")
        with pytest.raises(ConfigError, match=r"another.*--fresh starts over"):
            go(asked(service.url))


KILLED = """
import sys
from tests.launch.test_checklist import asked, run
from kvant.launch.settings import Settings, Soak, Speed
limits = Settings(speed=Speed(prompt=16, answer=8, rounds=1), soak=Soak(seconds=600, streams=1))
run(asked(sys.argv[1], limits), lambda step, what: print(step, flush=True))
"""


def test_a_killed_run_goes_on_where_it_was(home: Path) -> None:
    stub = Stub()
    with serving(stub) as service:
        run_ = subprocess.Popen(
            [sys.executable, "-c", KILLED, service.url], stdout=subprocess.PIPE, text=True
        )
        assert run_.stdout is not None
        with run_:
            for line in run_.stdout:
                if line.strip() == "soak":
                    break
            run_.send_signal(signal.SIGKILL)
        kept = sorted(file.name for file in home.glob("launch/*/*.json"))
        assert "speed.json" in kept
        assert "soak.json" not in kept
        speed = json.loads(next(home.glob("launch/*/speed.json")).read_text())["seconds"]
        time.sleep(0.2)
        found = go(asked(service.url))
    assert found["speed"].seconds == speed
    assert found["soak"].items[0].verdict is Verdict.PASS


def test_a_damaged_result_is_named(home: Path) -> None:
    notebook = Notebook({"a": 1})
    notebook.write(Step("speed", [Item("x", Verdict.PASS, "y")]), {"l": 1})
    assert notebook.read("speed", {"l": 1}).items[0].found == "y"  # type: ignore[union-attr]
    assert notebook.read("speed", {"l": 2}) is None
    (notebook.folder / "speed.json").write_text("{")
    with pytest.raises(ConfigError, match=r"speed\.json: cannot be read.*--fresh"):
        notebook.read("speed", {"l": 1})


def test_the_page_escapes_what_a_server_said() -> None:
    steps = [Step("interface", [Item("chat", Verdict.FAIL, "<script>x</script>")])]
    page = report.page(steps, {"device": "<b>"})
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert report.lines(steps)[-1] == "verdict: fail"

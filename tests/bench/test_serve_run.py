"""`kvant bench serve` as a whole, on a tiny model: two real servers, one round; and Ctrl-C amid it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import kvant
from tests import tiny

pytestmark = pytest.mark.slow  # a start of two servers takes a minute on two cores


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with a tokenizer of one word for each token."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    folder = tiny.write(tmp_path_factory.mktemp("tiny"))
    words = {f"w{number}": number for number in range(tiny.VOCABULARY)}
    PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel(words, "w0"))).save_pretrained(folder)
    return folder


@pytest.fixture
def bench(model: Path, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The command, running; its files lie in `tmp_path`."""
    program = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from kvant.cli import main; main()"
    )
    words = ["bench", "serve", "--model", str(model), "--formats", "int8", "--rounds", "1"]
    words += ["--only", "context=64,streams=2", "--output", "8", "--json", str(tmp_path / "result.json")]
    source = str(Path(kvant.__file__).parents[1])
    path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
    with (tmp_path / "out").open("w") as out, (tmp_path / "err").open("w") as err:
        process = subprocess.Popen(
            [sys.executable, "-c", program, *words],
            stdout=out,
            stderr=err,
            env=os.environ | {"PYTHONPATH": path},
        )
    yield process
    process.terminate()
    process.wait(60)


def test_one_round_of_two_real_servers(bench: subprocess.Popen[bytes], tmp_path: Path):
    assert bench.wait(500) == 0, (tmp_path / "err").read_text()
    assert "2 x 64" in (tmp_path / "out").read_text().splitlines()[-1]
    result = json.loads((tmp_path / "result.json").read_text())
    assert result.keys() == {"device", "cores", "commit", "versions", "settings", "left_out", "rows"}
    started = result["settings"]["servers"][0]["started"]
    assert started.keys() == {"vllm_bf16", "int8"}
    (row,) = result["rows"]
    assert {name: row[name] for name in ("context", "streams", "output", "memory", "format", "rounds")} == {
        "context": 64,
        "streams": 2,
        "output": 8,
        "memory": 1,
        "format": "int8",
        "rounds": 1,
    }
    assert row["ratio"].keys() == {"throughput", "decode_throughput", "tpot", "ttft"}
    for side in ("stock", "kvant"):
        assert row[side].keys() == row["ratio"].keys()
        assert row[side]["throughput"]["median"] > 0
    assert row["shares"].keys() == {"encode", "attend"}
    assert all(0 < share < 0.9 for share in row["shares"].values())
    expected = row["stock"]["tpot"]["median"] / row["kvant"]["tpot"]["median"]
    assert row["ratio"]["tpot"] == pytest.approx(expected)


def test_ctrl_c_leaves_no_process_behind(bench: subprocess.Popen[bytes], tmp_path: Path):
    deadline = time.monotonic() + 300
    while "is up" not in (tmp_path / "err").read_text() and time.monotonic() < deadline:
        time.sleep(0.2)
    while (family := psutil.Process(bench.pid).children(recursive=True)) and time.monotonic() < deadline:
        if any(one.pid == os.getpgid(one.pid) and "serve" in one.cmdline() for one in family):
            break  # the second server is starting as well
        time.sleep(0.2)
    assert len(family) >= 3
    bench.send_signal(signal.SIGINT)
    bench.wait(60)
    _, left = psutil.wait_procs(family, timeout=5)
    assert left == []
    assert bench.returncode != 0

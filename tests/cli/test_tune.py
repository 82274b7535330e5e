"""`kvant tune` on a tiny model: the recipe it writes, its JSON, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kvant import recipes
from kvant.models import manifest
from tests.recipes import made

LAYERS = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model that reads bytes."""
    return made.model(tmp_path_factory.mktemp("bytes"), max_position_embeddings=4096)


@pytest.fixture
def command(tmp_path: Path, monkeypatch) -> Callable[[Path], list[str]]:
    """A whole command on two short texts, from a recipe that lies there already."""
    monkeypatch.setenv("KVANT_HOME", str(tmp_path / "home"))
    (tmp_path / "mine.txt").write_text("The quick brown fox jumps over the lazy dog. " * 10)
    (tmp_path / "other.txt").write_text("Pack my box with five dozen liquor jugs, please. " * 10)

    def words(folder: Path) -> list[str]:
        base = _recipe(tmp_path / "base", manifest.verify(folder, trust=True))
        return [
            "tune", str(folder), "--recipe", str(base), "--text", str(tmp_path / "mine.txt"),
            "--tokens", "128", "--eval-text", str(tmp_path / "other.txt"), "--eval-tokens", "160",
            "--dtype", "float32", "--output", str(tmp_path / "tuned"),
        ]  # fmt: skip

    return words


@pytest.fixture
def words(command, folder: Path) -> list[str]:
    return command(folder)


def _recipe(folder: Path, digest: str) -> Path:
    """Of the tiny model's shape; few tokens in 16 bits, as the texts are short."""
    from kvant.recipes.recipe import load, save

    made.recipe(folder, made.transforms(range(LAYERS), 2, 16), digest, sinks=2, window=8)
    facts = made.facts(folder, digest, sinks=2, window=8)
    shape = facts.model.model_copy(update={"layers": LAYERS, "kv_heads": 2, "head_dim": 16})
    save(folder, facts.model_copy(update={"model": shape}))
    load(folder)
    return folder


def test_a_recipe_that_spends_bits_by_layer(kvant_command, words, folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra kvant[plot]")
    out, plot = tmp_path / "t.json", tmp_path / "t.svg"
    result = kvant_command(*words, "--bits", "3", "--json", str(out), "--plot", str(plot))
    assert result.status == 0, result.err
    recipe = recipes.load(tmp_path / "tuned")
    found = json.loads(out.read_text())

    pairs = [recipe.spec.of_layer(n).name for n in range(LAYERS)]
    assert found["chosen"]["layers"] == pairs
    assert len(set(pairs)) > 1, "3 bits are none of the uniform widths at head_dim 16"
    assert recipe.spec.layers
    assert (recipe.spec.sinks, recipe.spec.window) == (2, 8)
    assert recipe.facts.calibration.sha256 == recipes.load(tmp_path / "base").facts.calibration.sha256
    assert recipe.facts.provenance.command.startswith("kvant")
    (row,) = recipe.facts.fidelity
    assert (row["text"], row["context"], row["path"]) == ("other", 160, "simulated")
    assert row["bits"] == pytest.approx(found["chosen"]["bits"], rel=1e-3)
    card = (tmp_path / "tuned" / "README.md").read_text()
    assert "but in layers" in card
    assert "Measured fidelity" in card

    assert found["chosen"]["bits"] <= 3
    sides = {(one["layer"], one["side"]) for one in found["sensitivity"]}
    assert sides == {(n, side) for n in (None, *range(LAYERS)) for side in ("key", "value", "")}
    assert [point["bits"] for point in found["front"]] == sorted({point["bits"] for point in found["front"]})
    assert {row["preset"] for row in found["rows"]} >= {found["chosen"]["name"], "trellis3/trellis2"}
    assert {*found["verdicts"][0]} == {
        "uniform", "uniform_bits", "uniform_kl", "tuned", "tuned_bits", "tuned_kl", "gain", "gain_se",
        "better",
    }  # fmt: skip
    assert "< chosen; measured" in result.out
    assert f"kvant serve {folder} --recipe {tmp_path / 'tuned'}" in result.out
    assert "front, predicted" in plot.read_text()

    assert "holds a recipe already" in kvant_command(*words).err
    kept = [file.read_bytes() for file in (tmp_path / "home").rglob("tune-*.jsonl")]
    again = kvant_command(*words, "--kl", str(found["front"][2]["kl"]), "--force")
    assert again.status == 0, again.err
    assert [file.read_bytes() for file in (tmp_path / "home").rglob("tune-*.jsonl")] == kept
    other = recipes.load(tmp_path / "tuned").digest
    assert other != recipe.digest
    never = kvant_command(*words, "--kl", "1e-12", "--force")
    assert (never.status, recipes.load(tmp_path / "tuned").digest) == (2, other)
    assert "--kl 1e-12: this --ladder reached 0.0" in never.err


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--bits", "3", "--kl", "1"), "give one of them"),
        (("--bits", "1"), "--bits 1: the narrowest this --ladder can do is 2.5"),
        (("--ladder", "trellis2"), "two or more formats"),
        (("--name", "max"), "is a preset's"),
        (("--eval-text", "{mine}"), "--eval-text mine: is a tuning text too"),
        (("--tokens", "99999"), "has 4096 positions"),
        (("--plot", "t.txt"), "must end in .svg"),
        (("--json", "/no/such/t.json"), "cannot write --json"),
    ],
)
def test_what_it_refuses_before_any_model_is_loaded(kvant_command, words, tmp_path, more, says) -> None:
    result = kvant_command(*words, *(word.format(mine=tmp_path / "mine.txt") for word in more))
    assert (result.status, (tmp_path / "tuned").exists()) == (2, False)
    assert says in result.err


def test_full_and_sliding_window_layers_share_a_page_size(kvant_command, command, tmp_path: Path) -> None:
    gemma = made.model(tmp_path / "gemma", "Gemma3", max_position_embeddings=4096)
    result = kvant_command(*command(gemma), "--bits", "3", "--ladder", "trellis2,trellis3")
    assert result.status == 0, result.err
    spec = recipes.load(tmp_path / "tuned").spec
    pages = {spec.of_layer(n).layout(16, 2).page_bytes for n in range(LAYERS)}
    assert len(pages) == 1
    assert "share one page size" in result.out

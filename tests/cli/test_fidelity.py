"""`kvant fidelity` on a folder, simulated: rows, plot, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.recipes import made

FIELDS = {
    "model", "preset", "text", "path", "n", "bits", "effective_bits", "sinks", "window", "kernel", "weights",
    "kl", "kl_se", "kl_p99", "top1", "top1_se", "dppl", "dppl_se",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model that reads bytes."""
    folder = tmp_path_factory.mktemp("bytes")
    return made.model(folder, head_dim=64, num_hidden_layers=2, max_position_embeddings=4096)


def test_rows_say_everything_that_was_promised(kvant_command, folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra kvant[plot]")
    out, plot, text = tmp_path / "f.json", tmp_path / "f.svg", tmp_path / "mine.txt"
    text.write_text("The quick brown fox jumps over the lazy dog. " * 10)
    result = kvant_command(
        "fidelity", str(folder), "--path", "simulated", "--text", str(text), "--tokens", "128",
        "--skip", "64", "--preset", "int8,codebook2/codebook2+w16", "--preset", "bf16/bf16",
        "--by-position", "--by-layer", "--json", str(out), "--plot", str(plot),
    )  # fmt: skip
    found = json.loads(out.read_text())
    assert {"device", "commit", "versions", "settings", "texts", "rows", "layers"} == {*found} - {"cores"}
    assert found["settings"]["tokens"] == 128
    rows = {row["preset"]: row for row in found["rows"]}
    assert list(rows) == ["int8", "codebook2/codebook2+w16", "bf16/bf16"]
    for row in rows.values():
        assert {*row} == FIELDS | {"by_position"}
        assert (row["model"], row["text"], row["path"], row["n"]) == (str(folder), "mine", "simulated", 63)
        assert row["by_position"][0]["first"] == 0
    assert rows["bf16/bf16"]["kl"] == 0
    assert 0 < rows["int8"]["kl"] < rows["codebook2/codebook2+w16"]["kl"]
    narrow = rows["codebook2/codebook2+w16"]
    assert (narrow["bits"], narrow["window"]) == (2.25, 16)
    assert narrow["effective_bits"] == 2.25 + 13.75 * 16 / 128
    assert len(found["layers"]) == 3 * 2 * 2
    assert "codebook2/codebook2+w16" in plot.read_text()
    assert "codebook2/codebook2+w16" in result.out


def test_peers_are_simulated_whatever_the_path(kvant_command, folder: Path, tmp_path: Path) -> None:
    from kvant.quality.simulated.peers import PEERS

    out = tmp_path / "f.json"
    kvant_command(
        "fidelity", "--model", str(folder), "--path", "simulated", "--preset", "founding", "--peers",
        "--tokens", "160", "--json", str(out),
    )  # fmt: skip
    rows = json.loads(out.read_text())["rows"]
    assert {row["preset"] for row in rows} == {*PEERS}
    assert {row["text"] for row in rows} == {"english", "code"}
    assert {row["path"] for row in rows} == {"simulated"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "name a model"),
        (("{}", "--preset", "int8", "--text", "{}/none.txt"), "none.txt: No such file"),
        (("{}", "--preset", "int8", "--tokens", "999999"), "has 4096 positions"),
        (("{}", "--preset", "int8", "--tokens", "64", "--text", "{}/short.txt"), "text short: 9 tokens"),
        (("{}", "--plot", "{}/f.txt"), "must end in .svg"),
        (("{}", "--preset", "codebook9"), "no preset is named 'codebook9'"),
        (
            ("{}", "--preset", "int8", "--control", "{}", "--path", "simulated"),
            "--control: the simulated path",
        ),
        (("{}", "--preset", "int8", "--control", "/no/such/folder"), "does not exist"),
        (("/no/such/folder",), "does not exist"),
    ],
)
def test_what_it_refuses_before_any_model_is_loaded(kvant_command, folder: Path, words, says: str) -> None:
    (folder / "short.txt").write_text("too short")
    result = kvant_command("fidelity", *(word.format(folder) for word in words))
    assert result.status == 2
    assert says in result.err

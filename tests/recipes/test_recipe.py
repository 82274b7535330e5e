"""A recipe folder is read strictly: each way it can be wrong is refused with file, line and mend."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvant.errors import CalibrationError
from kvant.recipes import load
from kvant.recipes.recipe import RECIPE, TRANSFORMS
from kvant.transforms.calibrated import Calibration, file_digest
from tests.recipes import made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return made.recipe(tmp_path / "made", key="codebook4", value="codebook4-byte", skip_layers=(1,))


def change(folder: Path, old: str, new: str) -> int:
    """Replace text in recipe.yaml; the line it is in."""
    file = folder / RECIPE
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    return text[: text.index(old)].count("\n") + 1


def refusal(folder: Path) -> str:
    with pytest.raises(CalibrationError) as caught:
        load(folder)
    return str(caught.value)


def test_a_good_recipe_is_a_spec(folder: Path) -> None:
    recipe = load(folder)
    spec = recipe.spec
    assert (spec.name, spec.sinks, spec.window, spec.skip_layers) == ("codebook4/codebook4-byte", 4, 64, (1,))
    assert spec.calibration == str(folder / TRANSFORMS)
    assert spec.calibration_digest == file_digest(folder / TRANSFORMS)
    assert recipe.digest == file_digest(folder / RECIPE)
    recipe.check_model(made.DIGEST, made.LAYERS, made.HEADS, [made.DIM, made.DIM])


def test_it_may_be_named_from_the_current_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    assert load(folder.name).spec.calibration == str(folder / TRANSFORMS)


def test_a_recipe_without_calibration_has_none(folder: Path) -> None:
    text = (folder / RECIPE).read_text()
    head, _, rest = text.partition("calibration:\n")
    (folder / RECIPE).write_text(head + rest[rest.index("provenance:") :])
    (folder / TRANSFORMS).unlink()
    assert load(folder).spec.calibration == ""


def test_layers_may_have_formats_of_their_own(folder: Path) -> None:
    change(folder, "  layers: {}", "  layers:\n    '2': {key: int8, value: int8}")
    (own,) = load(folder).spec.layers
    assert (own.layer, own.key.name, own.value.name) == (2, "int8", "int8")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("sinks: 4", "sink: 4", "cache.sink: unknown field; did you mean sinks?"),
        ("sinks: 4", "sinks: '4'", "cache.sinks: '4' is text, not an integer; did you mean 4?"),
        ("sinks: 4", "sinks: 65", "cache: sinks 65: must be from 0 to 64 tokens"),
        ("sinks: 4", "sinks: -1", "cache.sinks: -1 must be at least 0; did you mean 0?"),
        ("key: codebook4", "key: codebok4", "cache: "),
        ("name: made", "nome: made", "nome: unknown field; did you mean name?"),
        ("version: 1", "version: 2", "version: 2 is not 1"),
        ("rotate: true", "rotate: yes", "cache.rotate: 'yes' is text, not true or false; did you mean true?"),
        ("transform: gm", "transform: mg", "calibration.transform: 'mg' is not 'gm' or 'diag'"),
        ("layers: 4", "layers: 0", "model.layers: 0 must be at least 1; did you mean 1?"),
        ("layers: {}", "layers: {7: {key: int8, value: int8}}", "7 is not a field name; quote it"),
        ("layers: {}", "layers: {'7': {key: int8, value: int8}}", "cache.layers: names layer 7, but model."),
        ("  - 1\n", "  - 4\n", "cache.skip_layers: names layer 4, but model.layers is 4"),
        ("layers: {}", "layers: {'2': {key: int8}}", "cache.layers.2.value: is missing"),
        ("file: transforms", "file: ../transforms", "calibration.file: '../transforms.safetensors' is not a"),
        ("file: transforms", "file: other", "calibration.file: "),
        ("corpora:", "corpora: !!python/tuple", "tag '!!python/tuple' is not allowed"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_refused_with_its_line(folder: Path, old: str, new: str, message: str) -> None:
    line = change(folder, old, new)
    lines = refusal(folder).splitlines()
    # An item of a list may be told by the list, and a tag by the line of its value.
    near = tuple(f"{folder / RECIPE}:{n}: {message}" for n in (line - 1, line, line + 1))
    assert any(text.startswith(near) for text in lines), lines


def test_a_missing_field_is_named(folder: Path) -> None:
    change(folder, "  digest: " + made.DIGEST + "\n", "")
    assert "model.digest: is missing" in refusal(folder)


def test_a_folder_without_a_recipe_is_refused(tmp_path: Path) -> None:
    assert "is no recipe: it has no recipe.yaml; `kvant calibrate` makes one" in refusal(tmp_path)
    assert "is no recipe" in refusal(tmp_path / "nowhere")


def test_changed_transforms_are_refused(folder: Path) -> None:
    file = folder / TRANSFORMS
    raw = bytearray(file.read_bytes())
    raw[-1] ^= 1
    file.write_bytes(raw)
    assert "calibration.sha256: transforms.safetensors is damaged" in refusal(folder)
    assert f"{folder / RECIPE}:{line(folder, 'sha256')}: " in refusal(folder)


@pytest.mark.parametrize("keep", [0, 7, 100, -1])
def test_truncated_transforms_are_refused_even_with_their_digest(folder: Path, keep: int) -> None:
    file = folder / TRANSFORMS
    file.write_bytes(file.read_bytes()[:keep])
    change(folder, (load_digest := line_text(folder, "sha256")), f"sha256: {file_digest(file)}")
    assert load_digest
    assert f"{file}: cannot be read" in refusal(folder)


def test_missing_transforms_are_refused(folder: Path) -> None:
    (folder / TRANSFORMS).unlink()
    assert f"calibration.file: {folder / TRANSFORMS} is missing" in refusal(folder)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (("cd" * 32, 4, 2, [64]), "digest abab"),
        ((made.DIGEST, 5, 2, [64]), "layers 4, the model has 5"),
        ((made.DIGEST, 4, 8, [64]), "KV heads 2, the model has 8"),
        ((made.DIGEST, 4, 2, [64, 128]), "head_dim 64, the model has 128"),
    ],
)
def test_another_model_is_refused(folder: Path, found: tuple[str, int, int, list[int]], message: str) -> None:
    with pytest.raises(CalibrationError, match=message) as caught:
        load(folder).check_model(*found)
    assert str(folder / RECIPE) in str(caught.value)


def test_the_same_transforms_are_the_same_bytes(tmp_path: Path) -> None:
    facts = {"a": "1", "b": "2", "c": "3", "d": "4"}
    calibration = Calibration(made.transforms().layers, facts)
    for name in ("one", "two"):
        calibration.save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert Calibration.load(tmp_path / "one").facts.items() >= facts.items()


def line_text(folder: Path, field: str) -> str:
    return next(text.strip() for text in (folder / RECIPE).read_text().splitlines() if f" {field}:" in text)


def line(folder: Path, field: str) -> int:
    lines = (folder / RECIPE).read_text().splitlines()
    return 1 + next(n for n, text in enumerate(lines) if f" {field}:" in text)

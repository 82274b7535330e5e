"""Hostile and broken safetensors files: one test per way in which a header can be wrong."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from kvant.errors import ModelError
from kvant.models import safetensors

WHOLE = save({"a": np.arange(12, dtype="f4"), "b": np.ones((2, 3), "f2")}, {"format": "pt"})


def write(path: Path, header: object, data: bytes = b"") -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def entry(begin: object, end: object) -> dict[str, object]:
    return {"dtype": "U8", "shape": [1], "data_offsets": [begin, end]}


def test_whole_files_pass(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(WHOLE)
    safetensors.check(path)
    safetensors.check(write(path, {}))
    safetensors.check(write(path, {"empty": entry(0, 0), "one": entry(0, 1)}, b"x"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(cut=st.integers(1, len(WHOLE)))
def test_a_file_cut_anywhere_is_refused_by_name(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "cut.safetensors"
    path.write_bytes(WHOLE[:-cut])
    with pytest.raises(ModelError, match=r"cut\.safetensors is truncated or damaged"):
        safetensors.check(path)


def test_bytes_after_the_end_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(WHOLE + b"\0")
    with pytest.raises(ModelError, match="promises"):
        safetensors.check(path)


def test_a_header_of_absurd_length_is_refused_without_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes((2**63).to_bytes(8, "little") + b"{}")
    with pytest.raises(ModelError, match="do not hold its header"):
        safetensors.check(path)


@pytest.mark.parametrize(
    "header",
    [
        b"{",
        b"\xff\xff",
        b"[" * 100_000,
        [],
        "text",
        {"a": 1},
        {"a": {}},
        {"a": entry("x", 1)},
        {"a": entry(0, None)},
    ],
    ids=["cut", "not utf-8", "deep", "list", "string", "number", "empty entry", "word", "null"],
)
def test_a_header_that_is_no_header_is_refused(tmp_path: Path, header: object) -> None:
    with pytest.raises(ModelError, match="its header is not readable"):
        safetensors.check(write(tmp_path / "m.safetensors", header, b"x"))


@pytest.mark.parametrize(
    "spans", [[(1, 4)], [(0, 2), (3, 4)], [(0, 3), (2, 4)], [(0, 4), (0, 4)], [(0, 4), (4, 3)]]
)
def test_tensors_with_gaps_or_overlaps_are_refused(tmp_path: Path, spans: list[tuple[int, int]]) -> None:
    header = {str(number): entry(*span) for number, span in enumerate(spans)}
    with pytest.raises(ModelError, match="gap or overlap"):
        safetensors.check(write(tmp_path / "m.safetensors", header, b"data"))

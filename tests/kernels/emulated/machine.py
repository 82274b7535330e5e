"""The native kernels on a processor that is not this one: cross-compiled, run by qemu's user mode."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from types import TracebackType

import numpy as np

ROOT = Path(__file__).parents[3]
COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"


def missing() -> str:
    """The programs that are not installed here, and what brings them; empty if none."""
    packages = {COMPILER: "g++-aarch64-linux-gnu", EMULATOR: "qemu-user", "cmake": "cmake"}
    lacks = [program for program in packages if not _find(program)]
    return (
        f"not installed: {', '.join(lacks)} (Debian, Ubuntu: apt-get install"
        f" {' '.join(packages[program] for program in lacks)})"
        if lacks
        else ""
    )


def _find(program: str) -> str | None:
    return shutil.which(program) or shutil.which(program, path=str(Path(sys.executable).parent))


def build() -> Path:
    """The driver for aarch64 by the project's own CMakeLists.txt; quick when nothing has changed."""
    folder, cmake = ROOT / "build" / "emulated", str(_find("cmake"))
    target = {"SYSTEM_NAME": "Linux", "SYSTEM_PROCESSOR": "aarch64", "CXX_COMPILER": _find(COMPILER)}
    settings = ["-DKVANT_DRIVER=ON", *(f"-DCMAKE_{name}={value}" for name, value in target.items())]
    for command in ([cmake, "-S", ROOT, "-B", folder, *settings], [cmake, "--build", folder, "-j2"]):
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode:
            raise RuntimeError(f"the driver does not build:\n{(result.stdout + result.stderr)[-3000:]}")
    return folder / "kvant_driver"


class Machine:
    """`kvant.kernels._native` of the emulated processor: the same functions with the same arguments.

    What lies at the addresses is sent to the driver; what it wrote is copied back.
    """

    def __init__(self, driver: Path, cpu: str = "max") -> None:
        self._process = subprocess.Popen(
            [str(_find(EMULATOR)), "-cpu", cpu, driver],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"OMP_NUM_THREADS": "2"},
        )

    def __enter__(self) -> Machine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(timeout=30)

    def _ask(self, operation: str, *arguments: bytes) -> bytes:
        """The one result of an operation; `ValueError` if it refuses."""
        (result,) = self._ask_all(operation, *arguments)
        return result

    def _ask_all(self, operation: str, *arguments: bytes) -> list[bytes]:
        process = self._process
        assert process.stdin
        assert process.stdout
        process.stdin.write(b"".join(map(_sized, (operation.encode(), *arguments))))
        process.stdin.flush()
        (size,) = struct.unpack("<q", process.stdout.read(8) or self._died(operation))
        refusal, *results = _pieces(process.stdout.read(size))
        if refusal:
            raise ValueError(refusal.decode())
        return results

    def _died(self, operation: str) -> bytes:
        raise RuntimeError(f"the driver ended with {self._process.wait()} in {operation!r}")

    def isas(self) -> list[tuple[str, bool, str]]:
        rows = [line.split("\t") for line in self._ask("isas").decode().splitlines()]
        return [(name, not why_not, why_not) for name, why_not in rows]

    def Side(
        self, *, kind: int, bits: int, asymmetric: bool, byte_scale: bool, levels: list[float], step: float,
        signs: list[float], weight: float, code_bytes: int, meta_bytes: int,
    ) -> bytes:  # fmt: skip
        numbers = _numbers("i4", kind, bits, asymmetric, byte_scale, code_bytes, meta_bytes)
        reals = (_numbers("f8", *x) for x in ([step], [weight], levels, signs))
        return b"".join(map(_sized, (numbers, *reals)))

    def Layout(self, key: bytes, value: bytes, *numbers: int) -> Layout:
        return Layout(key, value, numbers)

    def workspace_bytes(self, layout: Layout, *limits: int) -> int:
        return int.from_bytes(self._ask("workspace_bytes", layout, _numbers("i8", *limits)), "little")

    def encode(
        self, isa: str, layout: Layout, pages: int, num_blocks: int, page_stride: int, key: int, value: int,
        key_stride: int, value_stride: int, dtype: int, slots: int, num_tokens: int, key_signs: int,
        value_signs: int, key_mean: int, key_matrix: int, value_mean: int, value_matrix: int,
        exact: Layout | None = None, kept: int = 0, num_kept: int = 0, staged: int = 0, num_staged: int = 0,
        exact_pages: int = 0,
    ) -> None:  # fmt: skip
        row, size = layout.heads * layout.head_dim, 2 if dtype else 4
        matrix = 4 * row * layout.head_dim
        vectors = [
            _read(at, ((num_tokens - 1) * stride + row) * size if num_tokens else 0)
            for at, stride in ((key, key_stride), (value, value_stride))
        ]
        written = self._ask_all(
            "encode", isa.encode(), layout, _read(pages, num_blocks * page_stride),
            _numbers("i8", num_blocks, page_stride, key_stride, value_stride, dtype), *vectors,
            _read(slots, 8 * num_tokens), _read(key_signs, 4 * row), _read(value_signs, 4 * row),
            _read(key_mean, 4 * row), _read(key_matrix, matrix), _read(value_mean, 4 * row),
            _read(value_matrix, matrix), *_tiles(exact, kept, num_kept, staged, num_staged),
            _read(exact_pages, 4 * num_tokens),
        )  # fmt: skip
        for at, what in zip((pages, kept, staged), written, strict=True):
            ctypes.memmove(at, what, len(what))

    def attend(
        self, isa: str, layout: Layout, pages: int, num_blocks: int, page_stride: int, query: int,
        query_stride: int, out: int, out_stride: int, dtype: int, block_table: int, block_table_stride: int,
        query_start: int, seq_lens: int, num_seqs: int, num_q_heads: int, scale: float, window: int,
        softcap: float, sinks: int, key_signs: int, value_signs: int, workspace: int, workspace_bytes: int,
        precise: bool, key_query: int, value_mean: int, value_output: int, exact: Layout | None = None,
        kept: int = 0, num_kept: int = 0, staged: int = 0, num_staged: int = 0, exact_window: int = 0,
        exact_tiles: int = 0, exact_stride: int = 0, exact_first: int = 0, exact_from: int = 0,
        exact_sinks: int = 0, sink_tiles: int = 0,
    ) -> None:  # fmt: skip
        starts = _read(query_start, 4 * (num_seqs + 1))
        tokens, size = int.from_bytes(starts[-4:], "little"), 2 if dtype else 4
        row, signs = num_q_heads * layout.head_dim, 4 * layout.heads * layout.head_dim
        rows = [
            _read(at, ((tokens - 1) * stride + row) * size if tokens else 0)
            for at, stride in ((query, query_stride), (out, out_stride))
        ]
        written = self._ask(
            "attend", isa.encode(), layout, _read(pages, num_blocks * page_stride),
            _numbers("i8", num_blocks, page_stride, query_stride, out_stride, dtype, block_table_stride,
                     num_q_heads, window, workspace_bytes, precise, exact_window, exact_stride, sink_tiles),
            _numbers("f4", scale, softcap), *rows, _read(block_table, 4 * num_seqs * block_table_stride),
            starts, _read(seq_lens, 4 * num_seqs), _read(sinks, 4 * num_q_heads),
            _read(key_signs, signs), _read(value_signs, signs),
            _read(key_query, signs * layout.head_dim), _read(value_mean, signs),
            _read(value_output, signs * layout.head_dim),
            *_tiles(exact, kept, num_kept, staged, num_staged),
            _read(exact_tiles, 4 * num_seqs * exact_stride),
            *(_read(at, 4 * num_seqs) for at in (exact_first, exact_from, exact_sinks)),
        )  # fmt: skip
        ctypes.memmove(out, written, len(written))

    def decode_tile(self, isa: str, layout: Layout, tile: int, side: int, out: int) -> None:
        size = _read(tile, layout.tile_bytes)
        written = self._ask("decode_tile", isa.encode(), layout, size, _numbers("i8", side))
        ctypes.memmove(out, written, len(written))


class Layout(bytes):
    """A layout as it is sent, and the numbers that say how much memory an address stands for."""

    head_dim: int
    heads: int
    tile_bytes: int

    def __new__(cls, key: bytes, value: bytes, numbers: tuple[int, ...]) -> Layout:
        self = super().__new__(cls, key + value + _sized(_numbers("i4", *numbers)))
        self.head_dim, self.heads, self.tile_bytes = numbers[0], numbers[1], numbers[-1]
        return self


def _tiles(exact: Layout | None, kept: int, num_kept: int, staged: int, num_staged: int) -> tuple[bytes, ...]:
    """Whether there are 16-bit tiles, their layout, and the memory of those that stay and of the others."""
    if exact is None:
        return _numbers("i8", 0), b"", b""
    page = exact.heads * exact.tile_bytes
    return _numbers("i8", 1), exact, _read(kept, num_kept * page), _read(staged, num_staged * page)


def _numbers(kind: str, *numbers: float) -> bytes:
    return np.array(numbers, f"<{kind}").tobytes()


def _read(address: int, size: int) -> bytes:
    return ctypes.string_at(address, size) if address else b""


def _pieces(data: bytes) -> list[bytes]:
    """What was sent in pieces, each after its size."""
    found = []
    while data:
        (size,) = struct.unpack_from("<q", data)
        found.append(data[8 : 8 + size])
        data = data[8 + size :]
    return found


def _sized(data: bytes) -> bytes:
    """As the driver reads it; a layout is several such pieces already."""
    return data if isinstance(data, Layout) else struct.pack("<q", len(data)) + data

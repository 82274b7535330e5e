"""Measurements that were made already: a killed run, and another budget, go on from them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from kvant import whole
from kvant.quality.tune.measure import Part
from kvant.recipes import place


class Notebook:
    """Of one text of one model: one JSON line for each part, all of them or none.

    `key` is JSON that holds everything the measurements depend on; its digest names the file.
    """

    def __init__(self, digest: str, key: Any) -> None:
        name = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
        self._file = place.home(digest) / f"tune-{name}.jsonl"
        self.parts: list[Part] = []
        if self._file.is_file():
            lines = self._file.read_text(encoding="utf-8").splitlines()
            self.parts = [Part(**json.loads(line)) for line in lines]

    def keep(self, fresh: Iterator[Part]) -> Iterator[Part]:
        """Pass the parts on, and write them once there are no more."""
        for part in fresh:
            self.parts.append(part)
            yield part
        self._file.parent.mkdir(parents=True, exist_ok=True)
        whole.write(self._file, "".join(json.dumps(asdict(one)) + "\n" for one in self.parts).encode())

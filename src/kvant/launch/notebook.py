"""Where results are kept, so that a second run goes on: a folder for each configuration, a file a step.

A result counts again where the limits it was held against are the same. What was not run is tried again; what
failed is not, because a list that is repeated until it passes proves nothing.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from kvant import __version__, whole
from kvant.bench.result import known
from kvant.errors import ConfigError
from kvant.launch.result import Step, Verdict
from kvant.models import cache_root

SERVED = "service"


class Notebook:
    """$KVANT_HOME/launch/<digest of the configuration>/. Each file is there whole or not at all."""

    def __init__(self, configuration: Mapping[str, Any], fresh: bool = False) -> None:
        text = json.dumps([__version__, known(configuration)], sort_keys=True)
        self.folder = cache_root() / "launch" / hashlib.sha256(text.encode()).hexdigest()[:16]
        if fresh:
            shutil.rmtree(self.folder, ignore_errors=True)

    def place(self, name: str) -> Path:
        """A file in the folder, which is made with the first."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{self.folder}: {error.strerror}; set KVANT_HOME to a folder") from None
        return self.folder / name

    def read(self, name: str, limits: Any) -> Step | None:
        """What an earlier run found against the same limits; None where the step is to be done."""
        found = self._read(name)
        try:
            if found is None or found["limits"] != known(limits):
                return None
            step = Step.from_json(found)
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"{self._file(name)}: is no result ({error}); --fresh starts over") from None
        return None if step.verdict is Verdict.NOT_RUN else step

    def write(self, step: Step, limits: Any) -> None:
        """As of now: a run that reads it tells when it was found."""
        now = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        self._write(step.name, {"limits": limits, **replace(step, earlier=now).to_json()})

    def same_service(self, served: Mapping[str, Any]) -> None:
        """`ConfigError` where earlier results are of another cache than the one that runs now."""
        before = self._read(SERVED)
        if before is None:
            self._write(SERVED, served)
        elif before != dict(served):
            raise ConfigError(
                f"{self.folder} holds results of {before}, and what runs now is {dict(served)}; "
                "--fresh starts over"
            )

    def _file(self, name: str) -> Path:
        return self.folder / _called(name)

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            found = json.loads(self._file(name).read_text())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise ConfigError(f"{self._file(name)}: cannot be read: {error}; --fresh starts over") from None
        if not isinstance(found, dict):
            raise ConfigError(f"{self._file(name)}: is no result; --fresh starts over")
        return found

    def _write(self, name: str, found: Mapping[str, Any]) -> None:
        whole.write(self.place(_called(name)), (json.dumps(known(found), indent=1) + "\n").encode())


def _called(name: str) -> str:
    return f"{name.replace(' ', '-')}.json"

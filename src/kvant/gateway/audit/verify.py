"""Is an audit log whole? Every row of every file against the one before it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kvant.errors import ConfigError
from kvant.gateway.audit import chain, files


@dataclass(frozen=True)
class Found:
    """Rows `first` to `last` are one chain; `wrong` names the first place where it breaks."""

    first: int
    last: int
    hash: str
    wrong: str = ""


def verify(path: Path) -> Found:
    """All files of the log at `path`, oldest first. Older ones may have been deleted: the chain then
    begins where they end. `ConfigError` where there is no log."""
    parts = [*files.full(path), *([path] if path.exists() else [])]
    if not parts:
        raise ConfigError(f"{path}: no such audit log")
    first, last, before = 0, 0, ""
    for part in parts:
        try:
            with part.open("rb") as file:
                for at, line in enumerate(file, 1):
                    row = chain.opened(line)
                    if row is None:
                        return Found(first, last, before, f"{part}:{at}: is no row, or was changed")
                    if before and (row["before"] != before or row["number"] != last + 1):
                        text = f"{part}:{at}: row {row['number']} does not follow row {last}"
                        return Found(first, last, before, text)
                    first, last, before = first or row["number"], row["number"], chain.hash_of(row)
        except OSError as error:
            raise ConfigError(f"{part}: cannot be read: {error.strerror}") from None
    return Found(first, last, before)

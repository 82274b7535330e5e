"""What is said of a file of keys that was just made: it may be the first one, or a slip of the pen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kvant.config.words import near
from kvant.errors import ConfigError
from kvant.gateway.keys.file import read
from kvant.gateway.settings import load


def remarks(file: Path) -> Iterator[str]:
    """Where it is, the file of keys beside it that may be meant, and what a gateway's settings there name."""
    yield f"{file} is a new file of keys ({file.resolve()}); a gateway reads it as security.key_file"
    beside = [one for one in file.resolve().parent.iterdir() if one.is_file() and one.name != file.name]
    if (name := near(file.name, (one.name for one in beside))) is not None:
        meant = file.with_name(name)
        try:
            keys = len(read(meant).keys)
        except ConfigError:
            pass  # of another kind
        else:
            yield f"did you mean --file {meant}, which has {keys} {'key' if keys == 1 else 'keys'}?"
    for settings in sorted(one for one in beside if one.match("gateway*.yaml")):
        try:
            loaded = load(settings)
        except ConfigError:
            continue  # `kvant gateway --check` says what is wrong with it
        named = loaded.settings.security.key_file
        if named is not None and named.resolve() != file.resolve():
            yield f"{loaded.origin('security.key_file')} names another: {named}"

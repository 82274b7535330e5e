"""API keys: read from a file, kept as hashes, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

from kvant.errors import ConfigError


class Keys:
    """The keys that open the API; without any, everybody may enter."""

    def __init__(self, digests: tuple[bytes, ...] = ()) -> None:
        self._digests = digests

    @classmethod
    def load(cls, path: Path | None) -> Keys:
        """One key per line; empty lines and lines that start with # are skipped."""
        if path is None:
            return cls()
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"security.api_key_file: {path} cannot be read: {error}") from error
        keys = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
        if not keys:
            raise ConfigError(f"security.api_key_file: {path} holds no key: write one per line")
        return cls(tuple(map(_digest, keys)))

    def __bool__(self) -> bool:
        return bool(self._digests)

    def __repr__(self) -> str:
        return f"Keys({len(self._digests)} keys)"

    def admit(self, authorization: str | None) -> bool:
        """Whether the header `Authorization: Bearer <key>` names one of the keys."""
        if not self._digests:
            return True
        scheme, _, key = (authorization or "").partition(" ")
        given = _digest(key.strip())
        # All are compared, so that the time does not tell which one was close.
        matches = [hmac.compare_digest(given, known) for known in self._digests]
        return scheme.lower() == "bearer" and any(matches)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()

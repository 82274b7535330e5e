"""All keys of a gateway."""

from __future__ import annotations

from collections.abc import Iterable

from kvant.gateway.keys.key import Key, Secret, parsed

NOBODY = Secret(sha256="0" * 64)
"""Compared with where an id is unknown, so that the time does not tell."""


class Keyring:
    """Keys by id."""

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self.keys = {key.id: key for key in keys}

    def __repr__(self) -> str:
        return f"Keyring({len(self.keys)} keys)"

    def admit(self, authorization: str | None, now: float) -> Key | None:
        """The key of `Authorization: Bearer <key>`, at this Unix time; None where it opens nothing."""
        scheme, _, text = (authorization or "").partition(" ")
        found = parsed(text.strip()) if scheme.lower() == "bearer" else None
        if found is None:
            return None
        key = self.keys.get(found[0])
        secrets = key.secrets if key is not None else (NOBODY,)
        opened = [secret.opens(found[1], now) for secret in secrets]
        return key if any(opened) else None

    def with_key(self, key: Key) -> Keyring:
        return Keyring({**self.keys, key.id: key}.values())

    def without(self, key_id: str) -> Keyring:
        return Keyring(key for key in self.keys.values() if key.id != key_id)

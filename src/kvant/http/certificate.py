"""A TLS certificate that is read again when its files change; connections that are open stay as they are."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path

from kvant.errors import ConfigError

log = logging.getLogger("kvant.server")

LOOK_SECONDS = 1.0


class Certificate:
    """Of one listener: `context` always holds the last pair of files that fitted."""

    def __init__(self, chain: Path, key: Path) -> None:
        self._chain, self._key = chain, key
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._stamp = self._look()
        try:
            self._load()
        except (OSError, ssl.SSLError) as error:
            reason = getattr(error, "reason", None) or error.strerror
            raise ConfigError(f"{chain} with {key}: {reason}") from None

    async def keep_fresh(self) -> None:
        """Looks at the files every second, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.refresh()

    def refresh(self) -> None:
        """Takes files that have changed; a pair that does not fit (yet) is logged and changes nothing."""
        stamp = self._look()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._load()
            log.info("certificate read again from %s", self._chain)
        except (OSError, ssl.SSLError) as error:
            log.error("%s cannot be used, the certificate of before stays: %s", self._chain, error)

    def _load(self) -> None:
        # On a context of its own first: a failing load could leave ours with half a pair.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self._chain, self._key, password=_refuse)
        self.context.load_cert_chain(self._chain, self._key, password=_refuse)

    def _look(self) -> tuple[object, ...]:
        found: list[object] = []
        for path in (self._chain, self._key):
            try:
                status = path.stat()
                found += [status.st_mtime_ns, status.st_size, status.st_ino]
            except OSError:
                found.append(None)
        return tuple(found)


def _refuse() -> str:
    """In place of asking the terminal for the passphrase of a key, which would stop the server."""
    raise ssl.SSLError("the key has a passphrase")

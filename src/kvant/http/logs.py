"""The log of a server: lines on stderr."""

from __future__ import annotations

import logging


def log_to_stderr(level: str) -> None:
    """Sends what Kvant logs to stderr, from this level on."""
    logger = logging.getLogger("kvant")
    logger.setLevel(level.upper())
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
        logger.addHandler(handler)
        logger.propagate = False

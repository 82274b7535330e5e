"""Which arm a request goes to: the same for the same text, and in stays in as weights grow."""

from __future__ import annotations

import hashlib
import random


def in_candidate(salt: str, sticky: str, weight: float) -> bool:
    """Whether the text falls into this share of all texts; without a text, a draw for each request."""
    return (place(salt, sticky) if sticky else random.random()) < weight


def place(salt: str, sticky: str) -> float:
    """In [0, 1), evenly spread; another order for every salt."""
    digest = hashlib.sha256(f"{salt}\0{sticky}".encode("utf-8", "surrogatepass")).digest()
    return float(int.from_bytes(digest[:8], "big") >> 11) / 2.0**53

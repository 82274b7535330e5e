"""One key, and what it opens. Secrets are random, 256 bits, so a plain SHA-256 of one cannot be guessed."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from typing import Annotated, Literal, get_args

from pydantic import Field

from kvant.config.section import Section

Scope = Literal["generate", "metrics", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
"""generate: the API under /v1; metrics: /metrics; admin: /rollout and what /console shows."""

_TEXT = re.compile(r"kvant_([a-z0-9]{12})_([A-Za-z0-9_-]{43})", re.ASCII)
Limit = Annotated[int, Field(ge=1)] | None


class Secret(Section):
    """The hash of one secret; `expires` in Unix seconds, null for never."""

    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] = Field(repr=False)
    expires: float | None = None

    def opens(self, secret: str, now: float) -> bool:
        same = hmac.compare_digest(_digest(secret), self.sha256)
        return same and (self.expires is None or now < self.expires)


class Key(Section):
    """A client of the gateway. Its id is no secret: it stands in logs; quotas and caches go by it."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9]{12}$")]
    name: Annotated[str, Field(max_length=100)] = ""
    scopes: Annotated[tuple[Scope, ...], Field(strict=False)] = ("generate",)
    created: float = 0.0
    secrets: Annotated[tuple[Secret, ...], Field(strict=False, max_length=8)] = ()
    requests_per_minute: Limit = None
    tokens_per_minute: Limit = None
    concurrency: Limit = None

    def live(self, now: float) -> bool:
        """Whether any of its secrets still opens anything."""
        return any(one.expires is None or now < one.expires for one in self.secrets)

    def renewed(self, now: float, overlap: float, expires: float | None) -> tuple[Key, str]:
        """With a new secret, and its text; old ones go on for `overlap` seconds at most."""
        end = now + overlap
        old = [
            one.model_copy(update={"expires": end if one.expires is None else min(one.expires, end)})
            for one in self.secrets
            if one.expires is None or one.expires > now
        ]
        secret = secrets.token_urlsafe(32)
        fresh = Secret(sha256=_digest(secret), expires=expires)
        kept = (fresh, *old)[:8] if overlap > 0 else (fresh,)
        return self.model_copy(update={"secrets": kept}), f"kvant_{self.id}_{secret}"


def made(
    name: str,
    scopes: tuple[Scope, ...],
    now: float,
    expires: float | None = None,
    *,
    requests_per_minute: int | None = None,
    tokens_per_minute: int | None = None,
    concurrency: int | None = None,
) -> tuple[Key, str]:
    """A new key, and the text that its client sends; the text is nowhere else."""
    key = Key(
        id=secrets.token_hex(6),
        name=name,
        scopes=scopes,
        created=now,
        requests_per_minute=requests_per_minute,
        tokens_per_minute=tokens_per_minute,
        concurrency=concurrency,
    )
    return key.renewed(now, 0.0, expires)


def parsed(text: str) -> tuple[str, str] | None:
    """Id and secret of a key's text; None where it has not the form of one."""
    found = _TEXT.fullmatch(text)
    return None if found is None else (found[1], found[2])


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()

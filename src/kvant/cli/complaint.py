"""An expected error, as people see it."""

from __future__ import annotations

import sys

from kvant.errors import KvantError


def complain(error: KvantError) -> None:
    """One block on stderr."""
    first, *rest = str(error).splitlines() or [type(error).__name__]
    print("\n".join([f"error: {first}", *(f"       {line}" for line in rest)]), file=sys.stderr)

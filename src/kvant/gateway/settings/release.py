"""`rollout`: how the candidate is released, and where that is remembered."""

from __future__ import annotations

from pydantic import Field

from kvant.config.section import Text
from kvant.rollout.plan import Plan


class Rollout(Plan):
    """How the candidate is released, and where that is remembered."""

    state: Text = Field(
        default="kvant-rollout.db",
        description="File of the rollout's state (a relative one starts where kvant runs), or redis://, "
        "rediss:// or unix:// where several gateways share it.",
    )

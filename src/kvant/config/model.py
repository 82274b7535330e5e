"""`model`: which weights are served."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvant.config.section import Section, Text


class Model(Section):
    """Which weights are served, and as what."""

    path: Text = Field(
        default="smollm2-135m-instruct",
        description="A packaged model (`kvant models list`), a local folder, or a hub id.",
    )
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = Field(
        default="bfloat16", description="Type of weights and activations; auto takes the model's own."
    )
    served_name: Text | None = Field(
        default=None, description="The name clients use; null takes the last part of the path."
    )
    trust: bool = Field(
        default=True,
        description="Write the checksum manifest at the first load when there is none; "
        "false refuses a model without one.",
    )

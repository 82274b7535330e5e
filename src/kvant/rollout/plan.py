"""How a candidate is released: its phases, what each must show, what is too much, and how sure is sure."""

from __future__ import annotations

import itertools
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from kvant.config.section import Section

Quantity = Literal["divergence", "disagreement", "degeneration", "failures", "first_token", "per_token"]
LEVELS: tuple[Quantity, ...] = ("divergence", "disagreement")
"""Held against a fixed figure: a comparison says by itself how far the arms are apart."""
RATES: tuple[Quantity, ...] = ("degeneration", "failures", "first_token", "per_token")
"""Held against what the baseline shows in the same stretch of time."""
QUANTITIES = LEVELS + RATES

Seconds = Annotated[float, Field(ge=0, le=2_592_000)]
Count = Annotated[int, Field(ge=0, le=10_000_000)]


class Bound(Section):
    """What of one quantity is too much, and below what it counts as shown to be good."""

    rollback: float = Field(gt=0, lt=0.5, description="Rolled back once it is shown to be more.")
    promote: float = Field(gt=0, lt=0.5, description="Good once it is shown to be less.")


class Limits(Section):
    """Of each quantity. For rates: in how many more requests, as a share, than for the baseline."""

    divergence: Bound = Field(
        default=Bound(rollback=0.01, promote=0.01),
        description="KL(baseline || candidate), nats a position; a comparison counts for 10 limits at most.",
    )
    disagreement: Bound = Field(
        default=Bound(rollback=0.06, promote=0.06),
        description="Share of positions where the arms expect another token.",
    )
    degeneration: Bound = Field(
        default=Bound(rollback=0.002, promote=0.02),
        description="More answers that loop, are gibberish, run away, or break their JSON.",
    )
    failures: Bound = Field(
        default=Bound(rollback=0.0025, promote=0.01), description="More requests that the arm fails."
    )
    first_token: Bound = Field(
        default=Bound(rollback=0.1, promote=0.1),
        description="More requests whose first token is later than the baseline's 90th percentile.",
    )
    per_token: Bound = Field(
        default=Bound(rollback=0.1, promote=0.1),
        description="More requests whose tokens are slower than the baseline's 90th percentile.",
    )

    @model_validator(mode="after")
    def _levels_in_order(self) -> Limits:
        for name in LEVELS:
            if self.of(name).promote > self.of(name).rollback:
                raise PydanticCustomError(
                    "order", f"{name}: promote must not be above rollback, or both could be shown at once"
                )
        return self

    def of(self, quantity: Quantity) -> Bound:
        bound: Bound = getattr(self, quantity)
        return bound


class Step(Section):
    """One phase: the candidate's share of the traffic, and what must be there before the next."""

    weight: float = Field(ge=0, lt=1, description="Share of the traffic that the candidate answers.")
    dwell: Seconds = Field(description="Least seconds in this phase.")
    compared: Count = Field(description="Least requests that both arms answered or scored in this phase.")
    served: Count = Field(default=0, description="Least requests that the candidate answered in this phase.")
    proof: tuple[Quantity, ...] = Field(
        default=LEVELS, strict=False, description="Quantities shown to be good before the next phase."
    )


SHADOW = Step(weight=0.0, dwell=600, compared=200, proof=(*LEVELS, "degeneration"))
CANARY = (
    Step(weight=0.01, dwell=600, compared=50, served=50),
    Step(weight=0.05, dwell=600, compared=50, served=100),
    Step(weight=0.25, dwell=900, compared=50, served=200),
    Step(weight=0.5, dwell=900, compared=50, served=500, proof=QUANTITIES),
)


def _growing(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    weights = [step.weight for step in steps]
    if any(after <= before for before, after in itertools.pairwise([0.0, *weights])):
        raise PydanticCustomError("growing", "must have weights that grow from step to step, above 0")
    return steps


class Plan(Section):
    """Shadow, then canary steps, then full; each entered on evidence only."""

    alpha: float = Field(
        default=0.05,
        ge=1e-6,
        le=0.2,
        description="Most chance of rolling back a candidate within its limits, over the whole rollout; "
        "and of promoting to full one that is not good in a quantity of `proof`.",
    )
    shadow: Step = Field(default=SHADOW, description="Before any answer of the candidate is sent to a user.")
    canary: Annotated[tuple[Step, ...], AfterValidator(_growing)] = Field(
        default=CANARY, strict=False, description="Steps of growing weight; after the last comes full."
    )
    limits: Limits = Field(default=Limits(), description="What is too much and what is good.")

    @model_validator(mode="after")
    def _shadow_serves_nobody(self) -> Plan:
        if self.shadow.weight or self.shadow.served:
            raise PydanticCustomError(
                "shadow",
                "shadow: the candidate answers nobody there; drop weight and served, or set them to 0",
            )
        return self

    def at(self, weight: float) -> Step:
        """What holds at this weight: the last step that does not exceed it. A plan may change under way."""
        return next((step for step in reversed(self.canary) if step.weight <= weight), self.shadow)

    def after(self, weight: float) -> float:
        """The weight of the next step; 1 after the last."""
        return next((step.weight for step in self.canary if step.weight > weight), 1.0)

"""A tiny model with random weights, simulated in float32: made once."""

from __future__ import annotations

import pytest

from kvant.quality.simulated.model import Simulator
from tests.engine.run import prompt
from tests.engines import Models

TOKENS = 320


@pytest.fixture(scope="session")
def simulator(models: Models) -> Simulator:
    return Simulator(models("llama"), "float32")


@pytest.fixture(scope="session")
def ids() -> list[int]:
    return prompt(TOKENS)

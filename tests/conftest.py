"""Shared by all tests: deterministic random numbers, and engines on tiny models."""

from __future__ import annotations

import functools
import os

# Before any OpenMP runtime is loaded: threads that wait must not take the cores from those that work.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import httpx._transports.default as httpx_transports
import numpy as np
import pytest

from tests.engines import engine, models

# httpx reads all certificates of the world for every client: 40 ms, thousands of times in a run.
httpx_transports.create_ssl_context = functools.cache(httpx_transports.create_ssl_context)

__all__ = ["engine", "models", "rng"]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20_260_701)

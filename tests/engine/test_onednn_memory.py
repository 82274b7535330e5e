"""A service does not grow by what oneDNN compiles for ever new numbers of tokens in a step."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kvant.config import Settings
from kvant.engine import environment

NAME = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
PRODUCTS = """
import psutil, torch, vllm._custom_ops as ops
from vllm.platforms import current_platform

current_platform.import_kernels()
torch.set_num_threads(1)
shapes = ((128, 64), (64, 64), (192, 64), (64, 128)) * 30
weights = [(ops.create_onednn_mm(torch.randn(n, k, dtype=torch.bfloat16).t(), 32), k) for n, k in shapes]

def multiply(tokens):
    rows = {k: torch.randn(tokens, k, dtype=torch.bfloat16) for k in (64, 128)}
    for weight, k in weights:
        ops.onednn_mm(weight, rows[k], None)

for tokens in range(1, 41):
    multiply(tokens)
before = psutil.Process().memory_info().rss
for tokens in range(41, 301):
    multiply(tokens)
print((psutil.Process().memory_info().rss - before) / 2**20)
"""


def _grown(env: dict[str, str]) -> float:
    """MiB, from 40 numbers of tokens to 300."""
    ran = subprocess.run(
        [sys.executable, "-c", PRODUCTS], env=env, capture_output=True, text=True, timeout=300, check=True
    )
    return float(ran.stdout.split()[-1])


@pytest.mark.slow
def test_what_onednn_keeps_is_bounded_by_our_environment() -> None:
    plain = {name: value for name, value in os.environ.items() if name != NAME}
    ours = plain | {NAME: environment.defaults(Settings(), cpu=True, local_model=True)[NAME]}
    left, without = _grown(ours), _grown(plain)
    assert left < 20, (left, without)
    assert without > left + 40, (left, without)

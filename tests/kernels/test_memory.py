"""Huge pages: asked for, and the bytes stay what they were."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from kvant.kernels.memory import HUGE, ask_for_huge_pages

ENABLED = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def huge_bytes(address: int) -> int:
    """Bytes in huge pages of the mapping that holds `address`."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if found := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            inside = int(found[1], 16) <= address < int(found[2], 16)
        elif inside and line.startswith("AnonHugePages:"):
            return int(line.split()[1]) * 1024
    return 0


def test_memory_that_is_there_is_moved_to_huge_pages() -> None:
    if not ENABLED.exists() or "[never]" in ENABLED.read_text():
        pytest.skip(f"{ENABLED} does not allow huge pages here")
    pages = torch.zeros(64, 1 << 20, dtype=torch.uint8)
    pages[32] = 7
    before = huge_bytes(pages[32].data_ptr())
    if not ask_for_huge_pages(pages):
        pytest.skip("Linux did not move them: older than 6.1, or its memory is in pieces")
    assert huge_bytes(pages[32].data_ptr()) - before >= pages.nbytes - 2 * HUGE
    assert pages.sum() == 7 * pages.shape[1]


def test_less_than_a_huge_page_is_left_alone() -> None:
    assert not ask_for_huge_pages(torch.zeros(4, 4096, dtype=torch.uint8))

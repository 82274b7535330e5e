"""Each check on a healthy machine, and on one with the fault that it is there for."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Callable
from pathlib import Path

import pytest

from kvant.doctor import Finding, Level, Machine, examine
from kvant.doctor.checks import kernels, memory, plugin, software, storage, threads
from kvant.doctor.probe import Answer
from kvant.doctor.registry import CHECKS
from kvant.models import folder_of
from kvant.models import manifest as manifests
from tests.doctor import machines
from tests.models import folders

BIND = "VLLM_CPU_OMP_THREADS_BIND"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return machines.describe(tmp_path)


def one(findings: object) -> Finding:
    (finding,) = findings  # type: ignore[misc]
    return finding


def test_a_healthy_machine_has_no_fault(machine: Machine) -> None:
    """Software apart: that is the real environment's, and tests/doctor/test_command.py looks at it."""
    for check in (*CHECKS,):
        if check.__module__ != software.__name__:
            assert {finding.level for finding in check(machine)} <= {Level.OK}, check.__name__


def test_every_fault_comes_with_its_mend(machine: Machine) -> None:
    broken = dataclasses.replace(machine, probe={step: Answer({}, "boom") for step in machine.probe})
    findings = examine(broken).findings
    assert {"vllm", "torch", "transformers", "vllm plugin", "kernels"} <= {
        finding.what for finding in findings if finding.level is Level.FAIL
    }
    assert all(finding.mend for finding in findings if finding.level is not Level.OK)


def test_a_check_that_trips_does_not_hide_the_others(machine: Machine) -> None:
    silent = dataclasses.replace(machine, probe={})
    examination = examine(silent)
    assert examination.failed
    assert any(finding.what == "memory" and finding.level is Level.OK for finding in examination.findings)
    assert any("the check itself failed: KeyError" in finding.why for finding in examination.findings)


@pytest.mark.parametrize(
    ("check", "step"),
    [
        (software.torch, "torch"),
        (software.vllm, "vllm"),
        (software.transformers, "transformers"),
        (plugin.plugin, "plugin"),
        (kernels.native_kernels, "kernels"),
    ],
)
def test_a_library_that_does_not_load_fails_with_its_reason(
    machine: Machine, check: Callable[[Machine], object], step: str
) -> None:
    broken = machines.with_answer(machine, step, Answer({}, "crashed with SIGILL"))
    finding = one(check(broken))
    assert finding.level is Level.FAIL
    assert "crashed with SIGILL" in finding.why


def test_a_missing_native_module_says_how_to_build_it(machine: Machine) -> None:
    answer = Answer({}, "the native kernels are not built (No module named '_native'): run `make setup`")
    finding = one(kernels.native_kernels(machines.with_answer(machine, "kernels", answer)))
    assert finding == Finding(
        Level.FAIL, "kernels", "the native kernels are not built (No module named '_native')", "`make setup`"
    )


def test_the_kernel_path_and_why_not_a_better_one(machine: Machine) -> None:
    assert one(kernels.native_kernels(machine)).why == "avx2 is chosen; not avx512: no avx512vnni"


@pytest.mark.skipif(platform.machine() not in kernels.X86, reason="AVX2 is a feature of x86")
def test_x86_without_avx2_cannot_serve(tmp_path: Path) -> None:
    old = machines.describe(tmp_path, cpuinfo="model name: Old\nflags: fpu sse2\n")
    assert one(kernels.processor(old)).level is Level.FAIL


def test_a_plugin_that_is_not_registered(machine: Machine) -> None:
    finding = one(plugin.plugin(machines.with_answer(machine, "plugin", Answer({"registered": []}))))
    assert finding.level is Level.FAIL
    assert "no entry point" in finding.why


def test_vllm_plugins_must_name_kvant(machine: Machine) -> None:
    levels = {
        value: [finding.level for finding in plugin.plugin(machines.with_env(machine, VLLM_PLUGINS=value))]
        for value in ("other", "", "other,kvant")
    }
    assert levels == {
        "other": [Level.OK, Level.FAIL],
        "": [Level.OK, Level.FAIL],
        "other,kvant": [Level.OK],
    }


@pytest.mark.parametrize(
    ("gpus", "levels"), [(["H100"], [Level.OK]), ([], [Level.FAIL]), (None, [])], ids=["gpu", "no gpu", "cpu"]
)
def test_a_build_for_cuda_needs_a_gpu(machine: Machine, gpus: list[str] | None, levels: list[Level]) -> None:
    facts = {"cuda": None if gpus is None else "12.9", "gpus": gpus or []}
    findings = software.accelerator(machines.with_answer(machine, "torch", Answer(facts)))
    assert [finding.level for finding in findings] == levels


@pytest.mark.parametrize(
    ("paths", "level"),
    [
        (["/a/libgomp.so.1"], Level.OK),
        (["/a/libgomp.so.1", "/b/libgomp-24e2ab19.so.1.0.0"], Level.WARN),
        (["/a/libgomp.so.1", "/b/libiomp5.so"], Level.FAIL),
        (["/a/libgomp.so.1", "/b/libomp.so"], Level.FAIL),
    ],
)
def test_openmp_runtimes(machine: Machine, paths: list[str], level: Level) -> None:
    loaded = Answer({"openmp": paths, "libstdcxx": []})
    finding = one(threads.openmp(machines.with_answer(machine, "loaded", loaded)))
    assert finding.level is level
    assert all(path in finding.why for path in paths)


@pytest.mark.parametrize(
    ("env", "level"),
    [
        ({}, Level.OK),
        ({BIND: "auto"}, Level.WARN),
        ({BIND: "nobind"}, Level.OK),
        ({BIND: "nobind", "OMP_NUM_THREADS": "1"}, Level.WARN),
        ({BIND: "0-3"}, Level.OK),
        ({BIND: "0,1|2-3"}, Level.OK),
        ({BIND: "2"}, Level.WARN),
        ({BIND: "0-7"}, Level.FAIL),
        ({BIND: "all"}, Level.FAIL),
    ],
    ids=lambda value: str(value),
)
def test_thread_binding(machine: Machine, env: dict[str, str], level: Level) -> None:
    assert one(threads.binding(machines.with_env(machine, **env))).level is level


def test_on_two_cores_the_advice_is_to_use_both(machine: Machine) -> None:
    small = dataclasses.replace(machine, cores=(0, 1))
    assert f"1 thread of 2 unless {BIND}=0,1 is set" in one(threads.binding(small)).why
    assert one(threads.binding(machines.with_env(small, **{BIND: "auto"}))).mend == f"unset {BIND}"


def test_a_processor_quota_below_the_cores(machine: Machine) -> None:
    machines.write(machine.proc / "self/cgroup", "0::/\n")
    machines.write(machine.sys / "fs/cgroup/cpu.max", "150000 100000\n")
    finding = one(threads.quota(machine))
    assert finding.level is Level.WARN
    assert "1.5 processors" in finding.why


@pytest.mark.parametrize(
    ("available_gib", "limit_gib", "level"),
    [
        (12, None, Level.OK),
        (3, None, Level.WARN),
        (1, None, Level.FAIL),
        (12, 3, Level.WARN),
        (12, 1, Level.FAIL),
    ],
)
def test_memory(tmp_path: Path, available_gib: int, limit_gib: int | None, level: Level) -> None:
    if limit_gib is not None:
        machines.write(tmp_path / "proc/self/cgroup", "0::/\n")
        machines.write(tmp_path / "sys/fs/cgroup/memory.max", str(limit_gib << 30))
    machine = machines.describe(tmp_path, available_kib=available_gib << 20)
    assert one(memory.memory(machine)).level is level


def test_memory_that_plain_vllm_finds_too_little_is_told(tmp_path: Path) -> None:
    busy = one(memory.memory(machines.describe(tmp_path / "busy", available_kib=14 << 20)))
    assert busy.level is Level.OK
    assert busy.why.endswith("GiB available; plain vLLM needs --kv-cache-memory-bytes 1G here")
    free = one(memory.memory(machines.describe(tmp_path / "free", available_kib=15 << 20)))
    assert free.why == "15.0 of 16.0 GiB available"


def test_huge_pages(machine: Machine) -> None:
    path = machine.sys / "kernel/mm/transparent_hugepage/enabled"
    machines.write(path, "always madvise [never]\n")
    assert one(memory.huge_pages(machine)).level is Level.WARN
    machines.write(path, "[always] madvise never\n")
    assert one(memory.huge_pages(machine)).level is Level.OK
    path.unlink()
    assert one(memory.huge_pages(machine)).level is Level.OK


def test_shared_memory(machine: Machine, tmp_path: Path) -> None:
    finding = one(memory.shared_memory(dataclasses.replace(machine, shm=tmp_path / "none")))
    assert finding.level is Level.FAIL


def test_the_demo_model(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVANT_HOME", str(tmp_path / "home"))
    absent = one(storage.demo_model(machine))
    assert absent.level is Level.OK
    assert "pulls it" in absent.why
    folder = folders.write(folder_of(storage.DEMO))
    manifests.create(folder)
    assert "is here and whole" in one(storage.demo_model(machine)).why
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    damaged = one(storage.demo_model(machine))
    assert damaged.level is Level.FAIL
    assert "model.safetensors is truncated" in damaged.why
    assert damaged.mend == f"kvant models pull --again {storage.DEMO}"

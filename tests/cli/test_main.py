"""The command as a whole: help, version, errors, signals, and what it does not load."""

from __future__ import annotations

import contextlib
import os
import signal
import time

import pytest

import kvant

HEAVY = ("torch", "vllm", "transformers", "numpy", "ruamel.yaml", "httpx", "kvant.config")


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",)])
def test_help_lists_the_commands(kvant_command, words):
    result = kvant_command(*words)
    for command in ("serve", "doctor", "fidelity", "models", "config"):
        assert command in result.out


def test_version(kvant_command):
    assert kvant_command("--version").out == f"kvant {kvant.__version__}\n"


@pytest.mark.parametrize(
    "words",
    [("--help",), ("serve", "--help"), ("config", "--help"), ("models", "--help"), ("fidelity", "--help")],
)
def test_help_loads_nothing_heavy(kvant_process, words):
    process = kvant_process(*words, after=f"print('loaded', [m for m in {HEAVY} if m in sys.modules])")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert out.splitlines()[-1] == "loaded []"


def test_checking_a_configuration_does_not_load_the_engine(kvant_process, tmp_path):
    file = tmp_path / "kvant.yaml"
    file.write_text("engine:\n  max_num_batched_tokens: 2048\n")
    after = "print('loaded', [m for m in ('torch', 'vllm', 'transformers') if m in sys.modules])"
    process = kvant_process("config", "check", "-c", str(file), after=after)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert out.splitlines()[-1] == "loaded []"


def test_an_expected_error_is_one_block_on_stderr_without_a_traceback(kvant_process, tmp_path):
    file = tmp_path / "kvant.yaml"
    file.write_text("serving:\n  port: 0\n  prot: 1\n")
    process = kvant_process("serve", "-c", str(file))
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert err == (
        f"error: {file}:2: serving.port: 0 must be at least 1; did you mean 1?\n"
        f"       {file}:3: serving.prot: unknown field; did you mean port?\n"
    )


@pytest.mark.parametrize(
    "words", [("serv",), ("serve", "--prot"), ("config", "sho"), ("config", "check", "x")]
)
def test_a_wrong_command_line_is_misuse(kvant_command, words):
    result = kvant_command(*words)
    assert (result.status, result.out) == (2, "")
    assert "Traceback" not in result.err
    assert words[-1] in result.err


def test_ctrl_c_ends_with_130(kvant_process, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = kvant_process("config", "check", "-c", str(pipe))
    writer = None
    while writer is None:
        assert process.poll() is None
        time.sleep(0.02)
        # Fails until the command has opened the pipe; from then on it waits for us to write.
        with contextlib.suppress(OSError):
            writer = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    os.close(writer)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err

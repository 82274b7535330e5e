"""`kvant config`: check, show, schema, example, docs."""

from __future__ import annotations

import json

import pytest

from kvant.config import Settings, docs, load


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "kvant.yaml"
    path.write_text("kv_cache:\n  key_bits: 4\n  value_bits: 4\nengine:\n  hf_token: hf_abc\n")
    return path


def test_check_shows_every_field_and_where_it_was_set(kvant_command, file):
    words = ("--set", "serving.port=9000", "--set", "model.path=Qwen/Qwen2.5-0.5B-Instruct")
    result = kvant_command("config", "check", "-c", str(file), *words)
    rows = {words[0]: words[1:] for line in result.out.splitlines() if (words := line.split())}
    assert result.status == 0
    assert rows["kv_cache.key_bits"] == ["4", f"{file}:2"]
    assert rows["serving.port"] == ["9000", "--set"]
    assert rows["serving.host"] == ["'127.0.0.1'", "default"]
    assert rows[f"{file}:"] == ["ok"]
    assert len([name for name in rows if name.startswith(("model.", "serving.", "kv_cache."))]) == 27
    assert "kv_cache.key_bits: 4-bit keys without calibration" in result.err


@pytest.mark.parametrize("command", ["check", "show"])
def test_secrets_are_hidden(kvant_command, file, command):
    result = kvant_command("config", command, "-c", str(file))
    assert "***" in result.out
    assert "hf_abc" not in result.out + result.err


def test_check_refuses_an_engine_option_that_vllm_does_not_have(kvant_command, file):
    pytest.importorskip("vllm")
    file.write_text("engine:\n  max_num_batch_tokens: 8\n  enforce_eager: 1\n  block_size: 16\n")
    result = kvant_command("config", "check", "-c", str(file))
    assert result.status == 2
    assert result.err == (
        f"error: {file}:2: engine.max_num_batch_tokens: vLLM has no such option; "
        "did you mean max_num_batched_tokens?\n"
        f"       {file}:3: engine.enforce_eager: 1 is an integer, but vLLM declares bool\n"
        f"       {file}:4: engine.block_size: 16 cannot be passed on: set kv_cache.block_size\n"
    )


def test_check_looks_into_the_file_of_keys(kvant_command, file, tmp_path):
    keys = tmp_path / "keys"
    file.write_text(f"security:\n  api_key_file: {keys}\n")
    refused = kvant_command("config", "check", "-c", str(file))
    assert (refused.status, refused.out) == (2, "")
    assert refused.err.startswith(f"error: {file}:2: security.api_key_file: {keys} cannot be read")
    keys.write_text("# none yet\n")
    assert (
        f"{file}:2: security.api_key_file: {keys} holds no key"
        in kvant_command("config", "check", "-c", str(file)).err
    )
    keys.write_text("sk-1\n")
    assert kvant_command("config", "check", "-c", str(file)).status == 0


def test_check_without_a_file_checks_the_defaults(kvant_command):
    assert kvant_command("config", "check").out.endswith("defaults: ok\n")


def test_show_prints_a_file_that_means_the_same(kvant_command, tmp_path):
    shown = kvant_command("config", "show", "--set", "kv_cache.value_bits=4", "--set", "serving.port=1")
    file = tmp_path / "shown.yaml"
    file.write_text(shown.out)
    assert load(file) == load(None, {"kv_cache.value_bits": 4, "serving.port": 1})


def test_example_schema_and_docs_are_printed(kvant_command, tmp_path):
    assert json.loads(kvant_command("config", "schema").out) == docs.schema()
    assert kvant_command("config", "docs").out == docs.markdown()
    file = tmp_path / "kvant.yaml"
    file.write_text(kvant_command("config", "example").out)
    assert load(file) == Settings()


SET = [
    ("serving", "--set 'serving': write section.field=value"),
    ("port=1", "--set 'port=1': write section.field=value"),
    ("serving.port='1'", "--set: serving.port: '1' is text, not an integer; did you mean 1?"),
    ("serving.port=", "--set: serving.port: null is not an integer; leave it out for the default, 8080"),
    ("serving.prot=1", "--set: serving.prot: unknown field; did you mean port?"),
    ("serving.port=[1", "--set 'serving.port=[1':1: not valid YAML"),
    ("engine.a=!!python/name:os.system x", "--set 'engine.a=!!python/name:os.system x': tag"),
    ("serving.port=\udcff", "--set 'serving.port=\\udcff':1: byte 0xff is not UTF-8"),
    ("serving.\x1b[0m=1", "--set: serving.'\\x1b[0m': unknown field"),
]


@pytest.mark.parametrize(("text", "message"), SET)
def test_a_wrong_assignment_is_refused(kvant_command, text, message):
    result = kvant_command("config", "check", "--set", text)
    assert result.status == 2
    assert result.err.startswith(f"error: {message}")


def test_an_assignment_is_typed_as_yaml(kvant_command):
    words = [
        ("kv_cache.skip_layers=[0, 1]", "  skip_layers:\n  - 0\n  - 1\n"),
        ("model.path=org/name=x:y", "  path: org/name=x:y\n"),
        ("kv_cache.rotate_enable=true", "  rotate_enable: true\n"),
        ("kv_cache.memory_gib=0.5", "  memory_gib: 0.5\n"),
    ]
    for assignment, shown in words:
        assert shown in kvant_command("config", "show", "--set", assignment).out

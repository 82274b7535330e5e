"""Every field by itself: what is refused, with which words, and what is taken."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from kvant.config import KVCache, Settings, load

WRONG = [
    # section, line, what follows "kvant.yaml:2: section.field: "
    ("serving", 'port: "8080"', "'8080' is text, not an integer; did you mean 8080?"),
    ("serving", "port: true", "true is a boolean, not an integer"),
    ("serving", "port: 8080.0", "8080.0 is a float, not an integer; did you mean 8080?"),
    ("serving", "port: 8080.5", "8080.5 is a float, not an integer"),
    ("serving", "port: null", "null is not an integer; leave it out for the default, 8080"),
    ("serving", "port: [8080]", "a list of 1 is not an integer"),
    ("serving", "port: 0", "0 must be at least 1; did you mean 1?"),
    ("serving", "port: 99999", "99999 must be at most 65535; did you mean 65535?"),
    ("serving", "port: 99999999999999999999999", "99999999999999999999999 must be at most 65535"),
    ("serving", "host: ''", "'' must be neither empty nor padded with blanks"),
    ("serving", "host: 'a b'", "'a b' is neither an IP address nor a host name"),
    ("serving", "host: 300.1.1.1", "'300.1.1.1' is not a valid IPv4 address"),
    ("serving", "host: http://x", "'http://x' is neither an IP address nor a host name"),
    ("serving", "max_context: 0", "0 must be at least 1"),
    ("serving", "max_context: 8k", "'8k' is text, not an integer"),
    ("serving", "max_batch: 0", "0 must be at least 1"),
    ("serving", "max_concurrency: -1", "-1 must be at least 1"),
    ("serving", "timeout: 0", "0 must be more than 0"),
    ("serving", "timeout: '600'", "'600' is text, not a number; did you mean 600?"),
    ("serving", "timeout: .inf", "inf is not a finite number"),
    ("serving", "timeout: .nan", "nan is not a finite number"),
    ("serving", "timeout: true", "true is a boolean, not a number"),
    ("serving", "drain_timeout: -0.5", "-0.5 must be at least 0"),
    ("serving", "tensor_parallel: 0", "0 must be at least 1"),
    ("model", "path: 7", "7 is an integer, not text; did you mean '7', in quotes?"),
    ("model", 'path: "a\\e[31mb"', r"'a\x1b[31mb' must not contain control characters"),
    ("model", "dtype: fp16", "'fp16' is not one of auto, bfloat16, float16, float32; did you mean float16?"),
    ("model", "dtype: BF16", "'BF16' is not one of auto, bfloat16, float16, float32; did you mean bfloat16?"),
    ("model", "trust: 1", "1 is an integer, not true or false; did you mean true?"),
    ("model", "trust: yes", "'yes' is text, not true or false; did you mean true?"),
    ("kv_cache", "enable_quant: off", "'off' is text, not true or false; did you mean false?"),
    ("kv_cache", "codec: codebok", "'codebok' is not one of auto, int, codebook, polar, trellis; did you"),
    ("kv_cache", "key_bits: 5", "5 is not one of 2, 3, 4, 8, 16; did you mean 4?"),
    ("kv_cache", "key_bits: 7", "7 is not one of 2, 3, 4, 8, 16; did you mean 8?"),
    ("kv_cache", "key_bits: 8.0", "8.0 is a float, not an integer; did you mean 8?"),
    ("kv_cache", 'key_bits: "8"', "'8' is text, not an integer; did you mean 8?"),
    ("kv_cache", "value_bits: 1", "1 is not one of 2, 3, 4, 8, 16; did you mean 2?"),
    ("kv_cache", "value_bits: 32", "32 is not one of 2, 3, 4, 8, 16; did you mean 16?"),
    ("kv_cache", "key_residual_bits: true", "true is a boolean, not an integer"),
    ("kv_cache", "key_residual_bits: 2", "2 is not one of 0, 1; did you mean 1?"),
    ("kv_cache", "asymmetric: no", "'no' is text, not true or false; did you mean false?"),
    ("kv_cache", "scale: fp16", "'fp16' is not one of bf16, byte; did you mean bf16?"),
    ("kv_cache", "rotate_enable: 0", "0 is an integer, not true or false; did you mean false?"),
    ("kv_cache", "rotate_seed: -1", "-1 must be at least 0"),
    ("kv_cache", "rotate_seed: 9223372036854775808", "9223372036854775808 must be at most 922337203685"),
    ("kv_cache", "block_size: 24", "24 is not a multiple of 16; did you mean 16 or 32?"),
    ("kv_cache", "block_size: 33", "33 is not a multiple of 16; did you mean 32?"),
    ("kv_cache", "block_size: 0", "0 must be at least 16"),
    ("kv_cache", "max_cache_blocks: 1", "1 must be at least 2"),
    ("kv_cache", "memory_gib: 1GiB", "'1GiB' is text, not a number; did you mean 1?"),
    ("kv_cache", "memory_gib: 512 MB", "'512 MB' is text, not a number; did you mean 0.5?"),
    ("kv_cache", "memory_gib: some", "'some' is text, not a number"),
    ("kv_cache", "memory_gib: 0", "0 must be more than 0"),
    ("kv_cache", "skip_layers: 3", "3 is an integer, not a list; did you mean [3]?"),
    ("kv_cache", "skip_layers: '3'", "'3' is text, not a list"),
    ("kv_cache", "skip_layers: {a: 1}", "a mapping of 1 is not a list"),
    ("kv_cache", "skip_layers: [1, 1]", "a list of 2 names layer 1 twice"),
    ("monitoring", "metrics_port: 65536", "65536 must be at most 65535; did you mean 65535?"),
    ("monitoring", "log_level: INFO", "'INFO' is not one of debug, info, warning, error; did you mean info?"),
    ("monitoring", "log_level: verbose", "'verbose' is not one of debug, info, warning, error"),
    ("security", "api_key_file: 3", "3 is an integer, not a path"),
    ("security", "api_key_file: ''", "'' must be a path without control characters"),
    ("security", "allow_remote: 'true'", "'true' is text, not true or false; did you mean true?"),
]  # fmt: skip


@pytest.mark.parametrize(("section", "line", "words"), WRONG, ids=[f"{s}.{line}" for s, line, _ in WRONG])
def test_a_wrong_value_is_refused_with_line_field_value_and_mend(refuse, section, line, words):
    field = line.split(":")[0]
    (message,) = refuse(f"{section}:\n  {line}\n")
    assert message.startswith(f"kvant.yaml:2: {section}.{field}: {words}")


def test_an_item_of_a_list_is_named(refuse):
    assert refuse("kv_cache:\n  skip_layers:\n  - 1\n  - true\n") == [
        "kvant.yaml:4: kv_cache.skip_layers[1]: true is a boolean, not an integer"
    ]


UNKNOWN = [
    ("servin:\n  port: 1\n", "kvant.yaml:1: servin: unknown field; did you mean serving?"),
    ("sever:\n  port: 1\n", "kvant.yaml:1: sever: unknown field; did you mean serving?"),
    ("port: 1\n", "kvant.yaml:1: port: unknown field; did you mean serving.port?"),
    ("kv_cache:\n  keybits: 4\n", "kvant.yaml:2: kv_cache.keybits: unknown field; did you mean key_bits?"),
    ("kv_cache:\n  key-bits: 4\n", "kvant.yaml:2: kv_cache.key-bits: unknown field; did you mean key_bits?"),
    ("kv_cache:\n  port: 4\n", "kvant.yaml:2: kv_cache.port: unknown field; did you mean serving.port?"),
    (
        "security:\n  zzz: 4\n",
        "kvant.yaml:2: security.zzz: unknown field; known here: api_key_file, allow_remote",
    ),
    (
        "zzz: 4\n",
        "kvant.yaml:1: zzz: unknown field; known here: model, serving, kv_cache, monitoring",
    ),
    (
        'security:\n  "\\e[0m": 4\n',
        "kvant.yaml:2: security.'\\x1b[0m': unknown field; known here: api_key_file",
    ),
]


@pytest.mark.parametrize(("text", "message"), UNKNOWN)
def test_an_unknown_field_is_refused_with_the_nearest_name(refuse, text, message):
    (line,) = refuse(text)
    assert line.startswith(message)


def test_a_secret_beside_an_unknown_field_is_not_repeated(refuse):
    (line,) = refuse("security:\n  api_key: sk-12345\n")
    assert "sk-12345" not in line
    assert "api_key_file" in line


@pytest.mark.parametrize("section", ["model", "serving", "kv_cache", "monitoring", "security", "engine"])
def test_a_section_must_be_a_mapping(refuse, section):
    assert refuse(f"\n{section}: 8\n") == [f"kvant.yaml:2: {section}: 8 is an integer, not a mapping"]


def test_every_problem_is_reported_at_once_in_the_order_of_the_file(refuse):
    lines = refuse(
        "serving:\n"
        "  port: 0\n"
        "  hots: x\n"
        "kv_cache:\n"
        "  value_bits: 3\n"
        "  codec: int\n"
        "  block_size: 24\n"
        "  block_size: 32\n"
        "engine:\n"
        "  block_size: 16\n"
    )
    assert [line.split(": ")[:2] for line in lines] == [
        ["kvant.yaml:2", "serving.port"],
        ["kvant.yaml:3", "serving.hots"],
        ["kvant.yaml:5", "kv_cache.value_bits"],
        ["kvant.yaml:7", "kv_cache.block_size"],
        ["kvant.yaml:8", "'block_size' is given twice, first in line 7; keep one"],
        ["kvant.yaml:10", "engine.block_size"],
    ]


def test_a_rule_is_not_judged_by_a_field_that_is_itself_wrong(refuse):
    lines = refuse("kv_cache:\n  key_residual_bits: 1\n  key_bits: 5\n")
    assert [line.split(": ")[1] for line in lines] == ["kv_cache.key_bits"]


def test_all_right_values_are_taken(read):
    settings = read(
        "model: {path: org/name, dtype: float16, served_name: chat, trust: false}\n"
        "serving:\n"
        "  host: localhost\n"
        "  port: 65535\n"
        "  max_context: 8192\n"
        "  max_batch: 4\n"
        "  max_concurrency: 8\n"
        "  timeout: 60\n"
        "  drain_timeout: 0\n"
        "  tensor_parallel: 2\n"
        "kv_cache:\n"
        "  codec: int\n"
        "  key_bits: 8\n"
        "  value_bits: 4\n"
        "  asymmetric: true\n"
        "  rotate_enable: true\n"
        "  rotate_seed: 7\n"
        "  block_size: 64\n"
        "  memory_gib: 2\n"
        "  skip_layers: [0, 29]\n"
        "monitoring: {metrics_port: 9090, log_level: debug}\n"
        "security: {api_key_file: keys.txt}\n"
        "engine: {max_num_batched_tokens: 2048, hf_overrides: {a: [1, 2.5, null]}}\n"
    )
    assert settings.serving.timeout == 60.0
    assert settings.kv_cache.skip_layers == (0, 29)
    assert settings.security.api_key_file is not None
    assert settings.security.api_key_file.name == "keys.txt"
    assert settings.engine == {"max_num_batched_tokens": 2048, "hf_overrides": {"a": [1, 2.5, None]}}
    assert settings.warnings == ()


@pytest.mark.parametrize(
    "text", ["", "\n# only a comment\n", "---\n", "null\n", "{}", "\ufeff", "serving:\nkv_cache:\n"]
)
def test_an_empty_file_or_section_is_all_defaults(read, text):
    assert read(text) == Settings() == load()


def test_settings_cannot_be_changed():
    settings = Settings()
    with pytest.raises(ValidationError):
        settings.serving.port = 1
    with pytest.raises(ValidationError):
        settings.kv_cache = KVCache()


def test_rules_hold_for_settings_made_in_python():
    with pytest.raises(ValidationError, match="needs keys in a codebook"):
        Settings(kv_cache=KVCache(key_residual_bits=1))

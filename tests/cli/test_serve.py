"""`kvant serve` before anything is loaded: flags are fields, and are judged as strictly as the file."""

from __future__ import annotations

import pytest

WRONG = [
    (("--port", "99999"), "--port: serving.port: 99999 must be at most 65535; did you mean 65535?"),
    (("--port", "x"), "--port: serving.port: 'x' is text, not an integer"),
    (("--port", "8080.0"), "--port: serving.port: 8080.0 is a float, not an integer; did you mean 8080?"),
    (("--behind-gateway", "--port", "x"), "--port: serving.port: 'x' is text, not an integer"),
    (("--port", ""), "--port: serving.port: '' is text, not an integer"),
    (("--port", "null"), "--port: serving.port: 'null' is text, not an integer"),
    (("--key-bits", "true"), "--key-bits: kv_cache.key_bits: true is a boolean, not an integer"),
    (("--host", "a b"), "--host: serving.host: 'a b' is neither an IP address nor a host name"),
    (("--host", "0.0.0.0"), "--host: serving.host: '0.0.0.0' lets other machines connect"),
    (("a", "--model", "b"), "--model: model.path is set twice, first by MODEL; keep one of the two"),
    (("",), "MODEL: model.path: '' must be neither empty"),
    (("smollm2", "--port", "0"), "--port: serving.port: 0 must be at least 1"),
    (("a", "--model", "a", "--port", "0"), "--port: serving.port: 0 must be at least 1"),
    (("--model", ""), "--model: model.path: '' must be neither empty"),
    (("--key-bits", "5"), "--key-bits: kv_cache.key_bits: 5 is not one of 2, 3, 4, 8, 16; did you mean 4?"),
    (
        ("--value-bits", "1"),
        "--value-bits: kv_cache.value_bits: 1 is not one of 2, 3, 4, 8, 16; did you mean 2?",
    ),
    (
        ("--codec", "codebok"),
        "--codec: kv_cache.codec: 'codebok' is not one of auto, int, codebook, polar, trellis",
    ),
    (
        ("--codec", "int", "--key-bits", "2"),
        "--key-bits: kv_cache.key_bits: 2 must be 4 or 8 with this codec; did you mean codec: codebook? "
        "(kv_cache.codec is 'int', --codec)",
    ),
    (("--set", "kv_cache.block_size=24"), "--set: kv_cache.block_size: 24 is not a multiple of 16"),
    (("--port", "1", "--set", "serving.port=2"), "--set: serving.port is set twice, first by --port"),
    (
        ("--set", "serving.port=1", "--set", "serving.port=2"),
        "--set: serving.port is set twice, first by --set",
    ),
    (("-c", "nowhere.yaml"), "nowhere.yaml: no such file; write one with `kvant config example > FILE`"),
    (
        ("--set", "engine.attention_backend=FLASH_ATTN"),
        "--set: engine.attention_backend: 'FLASH_ATTN' cannot be",
    ),
]


@pytest.mark.parametrize(("words", "message"), WRONG, ids=[" ".join(words) for words, _ in WRONG])
def test_a_wrong_flag_is_refused_by_its_name(kvant_command, words, message):
    result = kvant_command("serve", *words)
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith(f"error: {message}")

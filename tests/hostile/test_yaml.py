"""Files made to hurt: every one ends in a ConfigError with its line, quickly and without side effects."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kvant.config import Settings, load
from kvant.config.reader import MAX_BYTES, MAX_DEPTH, read
from kvant.errors import ConfigError

LAUGHS = "engine:\n  a: &a [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n" + "".join(
    f"  {after}: &{after} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, after in zip("abcdefgh", "bcdefghi", strict=True)
)

HOSTILE = {
    "billion laughs": (LAUGHS, ":5: expands to more than 10000 values"),
    "alias to itself": ("engine: &e\n  a: *e\n", ":2: *e refers to nothing"),
    "alias to nothing": ("engine: *e\n", ":1: *e refers to nothing"),
    "python object": ("engine: !!python/object/apply:os.system ['true']\n", "'!!python/object/apply:os.sys"),
    "python name": ("engine:\n  a: !!python/name:os.system ''\n", ":2: tag '!!python/name:os.system'"),
    "own tag": ("engine: !x {a: 1}\n", ":1: tag '!x' is not allowed"),
    "tag directive": ("%TAG ! tag:evil,1:\n---\nengine: !x {a: 1}\n", ":3: tag 'tag:evil,1:x' is not"),
    "binary": ("model:\n  path: !!binary aGk=\n", ":2: tag '!!binary' is not allowed"),
    "merge key": ("x: &x {port: 1}\nserving:\n  <<: *x\n", ":3: merge keys (<<) are not supported"),
    "duplicate section": ("serving: {}\nmodel: {}\nserving: {port: 1}\n", ":3: 'serving' is given twice"),
    "duplicate field": ("serving:\n  port: 1\n  port: 2\n", ":3: 'port' is given twice, first in line 2"),
    "duplicate by quotes": ("serving:\n  port: 1\n  'port': 2\n", ":3: 'port' is given twice"),
    "deep lists": ("engine: " + "[" * 100_000, f":1: nested more than {MAX_DEPTH} levels deep"),
    "deep mappings": ("engine: " + "{a: " * 50_000, f":1: nested more than {MAX_DEPTH} levels deep"),
    "deep blocks": ("\n".join(" " * n + "a:" for n in range(500)), ":17: nested more than"),
    "deep keys": ("? " * 50_000, "nested more than"),
    "too many values": ("engine: {a: [" + "1," * 20_000 + "]}", ":1: expands to more than 10000 values"),
    "number as key": ("1: 2\n", ":1: 1 is not a field name"),
    "true as key": ("engine:\n  true: 2\n", ":2: true is not a field name"),
    "null as key": ("? \n: 2\n", ":1: null is not a field name"),
    "list as key": ("? [a, b]\n: 2\n", ":1: a collection is not a field name"),
    "tag on a key": ("!!str port: 2\n", ":1: tag '!!str' is not allowed"),
    "tab": ("serving:\n\tport: 1\n", ":2: not valid YAML: "),
    "unclosed": ("engine: [1, 2\n", "not valid YAML"),
    "unclosed quote": ("model:\n  path: 'abc\n", "not valid YAML"),
    "colon in text": ("model:\n  path: a: b\n", ":2: not valid YAML: mapping values are not allowed here"),
    "two documents": ("serving: {}\n---\nserving: {}\n", ":2: a second document begins"),
    "a list": ("- a\n", ":1: the file holds a list"),
    "a word": ("serving\n", ":1: the file holds text"),
    "a number": ("8080\n", ":1: the file holds an integer"),
    "escape beyond unicode": ('model:\n  path: "\\UFFFFFFFF"\n', "not valid YAML"),
    "surrogate escape": ('model:\n  path: "\\ud800"\n', ":2: model.path: '\\ud800' must not contain control"),
    "absurd version": ("%YAML 99999999999999999999.1\n---\n{}", "not valid YAML"),
    "million digits": ("serving:\n  port: " + "9" * 200_000, ":2: serving.port: '999"),
    "huge exponent": ("serving:\n  timeout: 1e999999999\n", ":2: serving.timeout: inf is not a finite"),
    "terminal codes": ('"\\e]0;x\\a": 1\n', ":1: '\\x1b]0;x\\x07': unknown field"),
}  # fmt: skip


def refused(data: bytes, tmp_path: Path) -> str:
    file = tmp_path / "kvant.yaml"
    file.write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        load(file)
    message = str(caught.value)
    assert message.startswith(f"{file}:")
    return message


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("text", "message"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_is_refused_by_line(tmp_path, text, message):
    found = refused(text.encode(), tmp_path)
    assert message in found
    assert found.isprintable() or found.count("\n"), "no control character reaches the terminal"
    assert len(found) < 2_000


BYTES = {
    "NUL": (b"serving:\n  port: 1\0\n", ":2: character U+0000 is not allowed in YAML"),
    "escape": (b"serving:\n\x1b[31m", ":2: character U+001B is not allowed"),
    "latin-1": (b"model:\n  path: caf\xe9\n", ":2: byte 0xe9 is not UTF-8; save the file as UTF-8"),
    "utf-16": ("serving: {}".encode("utf-16"), ":1: byte 0xff is not UTF-8"),
    "overlong": (b"a: \xc0\xaf", ":1: byte 0xc0 is not UTF-8"),
    "10 MB": (b"# " + b"x" * 10_000_000, "larger than 256 KiB"),
    "a weights file": (b"\x80\x02}q\x00.", ":1: byte 0x80 is not UTF-8"),
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("data", "message"), BYTES.values(), ids=BYTES)
def test_bytes_that_are_no_text_are_refused(tmp_path, data, message):
    assert message in refused(data, tmp_path)


def test_the_largest_file_is_read(tmp_path):
    file = tmp_path / "kvant.yaml"
    file.write_bytes(b"#".ljust(MAX_BYTES, b"x"))
    assert load(file) == Settings()


def test_an_endless_file_is_not_read_to_its_end():
    with pytest.raises(ConfigError, match="larger than 256 KiB"):
        load("/dev/zero")


def test_aliases_of_plain_values_work(tmp_path):
    file = tmp_path / "kvant.yaml"
    file.write_text("serving:\n  max_batch: &n 32\n  max_concurrency: *n\nengine: {a: &l [1], b: *l}\n")
    found = load(file)
    assert (found.serving.max_batch, found.serving.max_concurrency) == (32, 32)
    assert found.engine == {"a": [1], "b": [1]}


YAMLISH = st.text(
    alphabet=st.sampled_from(list("abk_ \n\t:-?[]{},&*!|>'\"%#@`\\0123456789.~<=\x00\x85\u2028\ud7ff\ufeff")),
    max_size=60,
)
PIECES = st.lists(
    st.sampled_from(
        ["serving:", "kv_cache:", "engine:", "port:", " ", "  ", "\n", "\n  ", "8", "8.0", "true", "null",
         "[", "]", "{", "}", ",", "- ", "? ", ": ", "&a ", "*a", "!!int ", "!x ", "'", '"', "|\n", ">\n",
         "---\n", "...\n", "%YAML 1.1\n", "# c\n", "\\x", "<<", "key_bits:", "3", "skip_layers:", "~", "\t"]
    ),
    max_size=30,
).map("".join)  # fmt: skip


def _is_settings_or_config_error(data: bytes) -> None:
    message = "kvant.yaml:"
    try:
        read(data, "kvant.yaml").root.plain()
    except ConfigError as error:
        message = str(error)
    assert message.startswith("kvant.yaml:")


@settings(deadline=None, max_examples=400)
@given(st.binary(max_size=80))
@example(b"\xef\xbb\xbf")
@example(b'"\\U00110000"')
@example(b"%YAML 1.\n---")
def test_no_bytes_raise_anything_but_a_config_error(data):
    _is_settings_or_config_error(data)


@settings(deadline=None, max_examples=600)
@given(YAMLISH | PIECES)
def test_no_text_raises_anything_but_a_config_error(text):
    _is_settings_or_config_error(text.encode(errors="surrogatepass"))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FIELDS = [
    (section, field)
    for section, info in Settings.model_fields.items()
    for field in getattr(info.annotation, "model_fields", {"anything": None})
]


@settings(deadline=None, max_examples=600, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=4),
    st.dictionaries(st.text(max_size=5), VALUES, max_size=1),
)
def test_no_value_of_any_field_raises_anything_but_a_config_error(fields, strange):
    overrides = {f"{section}.{field}": value for (section, field), value in fields.items()} | strange
    try:
        found = load(None, overrides)
    except ConfigError:
        return
    assert all(found.warnings)
    cache = found.kv_cache
    if cache.enable_quant and not (cache.preset or cache.recipe):
        assert cache.to_spec().block_size % 16 == 0

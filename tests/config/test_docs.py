"""The schema, the example file and the documentation say what the code does."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from kvant.config import Settings, docs, load
from kvant.errors import ConfigError

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "kvant.example.yaml"
PAGE = ROOT / "docs" / "configuration.md"
FIELDS = [
    f"{section}.{field}"
    for section, info in Settings.model_fields.items()
    for field in getattr(info.annotation, "model_fields", {})
]


def test_the_example_holds_every_field_with_its_default():
    from kvant.config import resolve

    loaded = resolve(EXAMPLE)
    assert loaded.settings == Settings()
    assert loaded.settings.warnings == ()
    lines = {field: loaded.origin(field) for field in (*FIELDS, "engine")}
    assert [field for field, origin in lines.items() if origin == "default"] == []
    assert len(FIELDS) == 32


def test_the_example_is_in_step_with_the_code():
    assert EXAMPLE.read_text() == docs.example(), "run: kvant config example > kvant.example.yaml"


def test_every_field_of_the_example_is_explained():
    lines = EXAMPLE.read_text().splitlines()
    for above, line in itertools.pairwise(lines):
        if line.startswith("  ") and not line.strip().startswith("#"):
            assert above.strip().startswith("#"), line


def test_the_documentation_is_in_step_with_the_code():
    marker = "<!-- The rest is what `kvant config docs` prints. -->\n\n"
    assert PAGE.read_text().partition(marker)[2] == docs.markdown(), "run: kvant config docs"


def test_the_first_file_of_the_documentation_is_valid(tmp_path):
    file = tmp_path / "kvant.yaml"
    file.write_text(PAGE.read_text().split("```yaml\n")[1].split("```")[0])
    assert load(file).kv_cache.value_bits == 4


def test_the_schema_describes_every_field():
    schema = docs.schema()
    json.dumps(schema)
    assert schema["additionalProperties"] is False
    described = [
        f"{section}.{field}"
        for section, _, fields in docs.sections()
        for field, entry in fields.items()
        if entry["description"]
    ]
    assert described == FIELDS
    bits = schema["$defs"]["KVCache"]["properties"]["key_bits"]
    assert (bits["anyOf"][0]["enum"], bits["default"]) == ([2, 3, 4, 8, 16], None)
    assert schema["$defs"]["KVCache"]["properties"]["block_size"]["multipleOf"] == 16


def test_what_is_dumped_is_read_back(tmp_path):
    overrides = {
        "kv_cache.skip_layers": [1, 2],
        "engine.a": {"b": [1.5, None, "yes", "8"]},
        "serving.port": 1,
    }
    settings = load(None, overrides)
    file = tmp_path / "kvant.yaml"
    file.write_text(docs.dump(settings.masked()))
    assert load(file) == settings


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "null"), (True, "true"), (8, "8"), ("bf16", "bf16"), ("8", '"8"'), ("yes", "yes"),
     ("null", '"null"'), ("127.0.0.1", '"127.0.0.1"'), ([], "[]"), ({}, "{}"), (600.0, "600.0")],
)  # fmt: skip
def test_a_value_is_written_as_yaml_reads_it(tmp_path, value, text):
    assert docs.written(value) == text
    from kvant.config.reader import read

    assert read(text.encode(), "x").root.plain() == value


def test_the_error_in_the_documentation_is_what_is_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("kvant.yaml").write_text("# x\nserving:\n  prot: 1\nkv_cache:\n  key_bits: 5\n  block_size: 24\n")
    with pytest.raises(ConfigError) as caught:
        load("kvant.yaml")
    for line in str(caught.value).splitlines():
        assert line in PAGE.read_text()

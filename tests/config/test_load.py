"""Files and overrides: what wins, where each value came from, and files that are not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvant.config import load, resolve
from kvant.errors import ConfigError


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "kvant.yaml"
    path.write_text("serving:\n  port: 9000\n  max_batch: 4\nengine:\n  seed: 3\n  hf_overrides: {a: 1}\n")
    return path


def test_an_override_wins_over_the_file_and_the_file_over_the_default(file):
    settings = load(file, {"serving.port": 9001, "engine.hf_overrides.b": 2})
    assert (settings.serving.port, settings.serving.max_batch, settings.serving.max_concurrency) == (
        9001,
        4,
        64,
    )
    assert settings.engine == {"seed": 3, "hf_overrides": {"a": 1, "b": 2}}


def test_the_origin_of_every_field_is_known(file):
    loaded = resolve(file, {"serving.port": 9001}, flags={"serving.port": "--port"})
    assert loaded.origin("serving.port") == "--port"
    assert loaded.origin("serving.max_batch") == f"{file}:3"
    assert loaded.origin("serving.host") == "default"
    assert loaded.origin("engine.hf_overrides.a") == f"{file}:6"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"serving.port": "9001"}, "--x: serving.port: '9001' is text, not an integer; did you mean 9001?"),
        ({"serving.prot": 1}, "--x: serving.prot: unknown field; did you mean port?"),
        ({"kv_cach.key_bits": 1}, "--x: kv_cach: unknown field; did you mean kv_cache?"),
        ({"serving.port.x": 1}, "--x: serving.port.x: cannot be set, because serving.port is an integer"),
        ({"engine.seed.x": 1}, "--x: engine.seed.x: cannot be set, because engine.seed is an integer"),
        (
            {"engine": {"block_size": 3}},
            "--x: engine.block_size: 3 cannot be passed on: set kv_cache.block_size",
        ),
    ],
)
def test_a_wrong_override_is_refused_by_the_name_of_its_flag(file, overrides, message):
    with pytest.raises(ConfigError) as caught:
        load(file, overrides, flags=dict.fromkeys(overrides, "--x"))
    assert str(caught.value) == message


def test_an_override_without_a_flag_is_called_an_override():
    with pytest.raises(ConfigError, match=r"^override: serving\.port: 0 must be at least 1"):
        load(None, {"serving.port": 0})


def test_a_problem_in_the_file_and_one_in_a_flag_come_together(file):
    file.write_text("serving:\n  port: 0\n")
    with pytest.raises(ConfigError) as caught:
        load(file, {"model.dtype": "x"}, flags={"model.dtype": "--dtype"})
    assert [line.split(": ")[0] for line in str(caught.value).splitlines()] == [f"{file}:2", "--dtype"]


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(ConfigError, match=r"^nowhere\.yaml: no such file"):
        load("nowhere.yaml")


def test_a_folder_is_not_a_file(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load(tmp_path)


def test_a_path_that_no_file_can_have_is_refused():
    with pytest.raises(ConfigError, match="cannot be read"):
        load(Path("a\0b"))


def test_the_engine_is_checked_by_whoever_knows_it(file):
    def check(options):
        assert options["seed"] == 3
        yield "hf_overrides", "is unheard of"

    with pytest.raises(ConfigError) as caught:
        load(file, engine_check=check)
    assert str(caught.value) == f"{file}:6: engine.hf_overrides: is unheard of"


def test_secrets_are_in_no_repr_and_no_dump(read):
    settings = read("engine:\n  hf_token: hf_abc\n  x: [{password: pw1}]\n  max_tokens: 3\n")
    assert "hf_abc" not in repr(settings)
    masked = settings.masked()["engine"]
    assert masked == {"hf_token": "***", "x": [{"password": "***"}], "max_tokens": 3}
    assert settings.engine["hf_token"] == "hf_abc"

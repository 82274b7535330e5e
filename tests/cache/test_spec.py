"""CacheSpec and PageIdentity: strict in, the same out, differences named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kvant.cache import CacheSpec, PageIdentity
from kvant.errors import ConfigError, IdentityError
from kvant.formats import KEY_FORMATS, parse


@pytest.mark.parametrize("key", KEY_FORMATS)
def test_json_round_trip(key: str) -> None:
    spec = CacheSpec(parse(key), parse("codebook4"), True, 11, 64, (0, 3))
    assert CacheSpec.from_json(spec.to_json()) == spec


def test_what_is_quantised_is_rotated_unless_said() -> None:
    assert CacheSpec.from_json({"key": "codebook4", "value": "int8"}).rotate
    assert CacheSpec.from_json({"key": "int8"}).rotate
    assert not CacheSpec.from_json({"key": "int8", "rotate": False}).rotate
    assert not CacheSpec.from_json({"key": "bf16", "value": "bf16"}).rotate


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"keys": "int8"}, "kvant.keys: unknown field; did you mean 'key'"),
        ({"key": "int5"}, "format 'int5' does not exist"),
        ({"value": "codebook3+jl"}, "keys only"),
        ({"key": 8}, "kvant.key: 8 is not of type str"),
        ({"seed": True}, "kvant.seed: True is not of type int"),
        ({"seed": -1}, "seed -1"),
        ({"block_size": 24}, "block_size 24"),
        ({"rotate": 1}, "kvant.rotate: 1 is not of type bool"),
        ({"key": "codebook4", "rotate": False}, "codebook4 is made for rotated vectors"),
        ({"skip_layers": ["0"]}, "kvant.skip_layers"),
        ({"skip_layers": [1, 1]}, "distinct"),
        ("int8", "expected an object"),
    ],
)
def test_wrong_specs_are_refused_by_field(data: Any, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        CacheSpec.from_json(data)
    assert message in str(error.value)


def identity(**changes: Any) -> PageIdentity:
    spec = CacheSpec(parse("codebook4"), parse("codebook4"), True, 3)
    return replace(PageIdentity.of(spec.layout(64, 3), True, 3), **changes)


@pytest.mark.parametrize(
    ("field", "value"),
    [("key", "codebook3"), ("value", "int8"), ("head_dim", 128), ("block_size", 16), ("rotate", False),
     ("seed", 4), ("tile_bytes", 1),
     ("layout_version", "x"), ("rotation_version", "x"), ("code_versions", "x")],
)  # fmt: skip
def test_every_difference_changes_the_digest_and_is_named(field: str, value: Any) -> None:
    other = identity(**{field: value})
    assert other.digest != identity().digest
    with pytest.raises(IdentityError, match=f"here: .*{field} is"):
        identity().check(other, "here")


def test_equal_identities_pass_and_unrotated_pages_ignore_the_seed() -> None:
    identity().check(identity(), "here")
    layout = CacheSpec().layout(64, 3)
    assert PageIdentity.of(layout, False, 1) == PageIdentity.of(layout, False, 2)

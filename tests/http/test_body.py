"""Which bodies are let through to the engine."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvant.http.body import MAX_CHOICES, Refused, check

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text().filter(lambda name: name not in ("n", "best_of")), JSON))
def test_any_json_object_passes_as_it_is(value: dict[str, object]) -> None:
    assert check(json.dumps(value, ensure_ascii=False).encode()) == value
    assert check(json.dumps(value).encode()) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_an_object_or_refused(body: bytes) -> None:
    try:
        parsed = check(body)
    except Refused as error:
        status = error.refusal.status
    else:
        status = 200 if isinstance(parsed, dict) else 500
    assert status in (200, 400)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "not JSON: Expecting value at line 1, column 1"),
        (b'{"a": 1', "not JSON"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a": [-Infinity]}', "-Infinity is not JSON"),
        (b'{"a": 1e400}', "out of range"),
        (b'{"a": ' + b"9" * 5000 + b"}", "a number in the body is too long"),
        (b"[]", "not a list"),
        (b"3", "not a number"),
        (b"null", "not null"),
        (b"true", "not a boolean"),
        (b'{"a": "\xff"}', "not UTF-8 at byte 7"),
        (b'{"a": "\\ud83d"}', "half a surrogate pair"),
        (b'{"a": "\\uDE00"}', "half a surrogate pair"),
        (b'{"a": ' * 20_000, "nested too deeply"),
        (b'{"n": "1000000"}', "n must be a whole number"),
        (b'{"n": 1e6}', "n must be a whole number"),
        (
            b'{"n": 128, "prompt": ["a", "b", "c", "d", "e", "f", "g", "h", "i"]}',
            "9 prompts with n 128 are over",
        ),
        (b'{"n": %d}' % (MAX_CHOICES + 1), f"n {MAX_CHOICES + 1} is over the limit of {MAX_CHOICES}"),
        (b'{"best_of": 1000000}', "best_of 1000000"),
    ],
)
def test_what_is_refused_says_why(body: bytes, message: str) -> None:
    with pytest.raises(Refused, match=message):
        check(body)


@pytest.mark.parametrize(
    "body", [b'{"a": "\\ud83d\\ude00"}', b'{"a": "\\\\ud83d"}', b'{"n": 128}', b'{"n": null}']
)
def test_what_only_looks_wrong_passes(body: bytes) -> None:
    assert check(body) == json.loads(body)

"""URLs of a command line: what is none is refused with the one that was probably meant."""

from __future__ import annotations

import pytest

from kvant.config import address
from kvant.errors import ConfigError


@pytest.mark.parametrize("text", ["http://127.0.0.1:8080", "https://host/v1", "http://[::1]:80", None])
def test_a_url_is_taken(text: str | None) -> None:
    address.check(text, "--url")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("127.0.0.1:22001", "did you mean http://127.0.0.1:22001?"),
        ("localhost", "did you mean http://localhost?"),
        ("engine:8000/v1", "did you mean http://engine:8000/v1?"),
        ("[::1]:80", r"did you mean http://\[::1\]:80?"),
        ("ftp://host", "expected http://HOST:PORT"),
        ("kvant.yaml is here", "expected http://HOST:PORT"),
        ("http://", "names no host"),
        ("http:///v1", "names no host"),
        ("http://host:99999", "Port out of range"),
    ],
)
def test_what_is_no_url_is_refused_with_a_suggestion(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=rf"--url: '.*' .*{says.replace('?', '[?]')}"):
        address.check(text, "--url")

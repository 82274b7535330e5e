"""Networks that may connect."""

from __future__ import annotations

import pytest

from kvant.gateway.admission.addresses import AllowList


@pytest.mark.parametrize(
    ("address", "admitted"),
    [
        ("10.1.2.3", True),
        ("11.1.2.3", False),
        ("::ffff:10.1.2.3", True),
        ("2001:db8::1", True),
        ("2001:db9::1", False),
        ("", False),
        (None, False),
        ("10.1.2.3, 11.0.0.1", False),
    ],
)
def test_only_the_networks_on_the_list(address: str | None, admitted: bool) -> None:
    assert AllowList(["10.0.0.0/8", "2001:db8::/32"]).admits(address) is admitted


def test_an_empty_list_lets_everybody() -> None:
    assert AllowList([]).admits("203.0.113.9")

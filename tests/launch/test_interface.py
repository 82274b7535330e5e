"""A real server passes; a server that is wrong in one way is failed for that way, and no other."""

from __future__ import annotations

import pytest

from kvant.launch import interface
from kvant.launch.result import Verdict
from kvant.launch.service import Service
from tests.e2e.server import Server
from tests.launch.stub import Stub, serving


def failed(service: Service, keyed: bool = False) -> list[str]:
    step = interface.run(service, keyed)
    assert {item.verdict for item in step.items} <= {Verdict.PASS, Verdict.FAIL}
    return [item.name for item in step.items if item.verdict is Verdict.FAIL]


def test_a_real_server_passes(server: Server) -> None:
    step = interface.run(Service.find(server.url), False)
    assert step.verdict is Verdict.PASS, step.items
    assert len(step.items) == 11


@pytest.mark.parametrize(
    ("fault", "names"),
    [
        ("", []),
        ("not ready", ["/ready"]),
        ("page", ["/ready"]),
        ("done", ["chat, streamed", "completions, streamed", "usage"]),
        ("usage", ["usage"]),
        ("stop", ["stop strings"]),
        ("envelope", ["errors"]),
    ],
)
def test_each_fault_is_named(fault: str, names: list[str]) -> None:
    with serving(Stub(fault)) as service:
        assert failed(service) == names


def test_a_key_that_is_not_asked_for_fails_where_one_is_configured() -> None:
    with serving(Stub()) as service:
        assert failed(service, keyed=True) == ["authorisation"]
    with serving(Stub(key="sk-a")) as service:
        assert failed(service, keyed=True) == []


def test_without_keys_only_loopback_may_be_served() -> None:
    open_to_all = Service("http://192.0.2.1:8080", "m", None, "")
    item = interface._auth(open_to_all, False)
    assert (item.verdict, item.found) == (
        Verdict.FAIL,
        "no key is asked for, and http://192.0.2.1:8080 is not loopback",
    )

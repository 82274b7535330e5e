"""schemathesis walks the OpenAPI document: what the gateway says of itself is so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck
from hypothesis import settings as effort
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from kvant.gateway import openapi
from tests.gateway.engine import Engine
from tests.gateway.running import Running, settings

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)
schema = schemathesis.openapi.from_dict(openapi.document())


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    with (
        Engine(per_token=0.0, first=0.0) as engine,
        Running(settings([engine], limits={"answer_tokens": 8})) as one,
    ):
        yield one


@schema.parametrize()
@effort(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_document_is_true(case: schemathesis.Case, gateway: Running) -> None:
    case.call_and_validate(base_url=gateway.url, checks=CHECKS)

"""Reading /metrics back."""

from __future__ import annotations

import pytest

from kvant.telemetry.metrics import Metrics
from kvant.telemetry.scrape import Scrape
from tests.launch import recorded


def test_what_is_written_is_read() -> None:
    metrics = Metrics()
    metrics.bytes_per_token.set(5940)
    metrics.rejected.labels("busy").inc(2)
    metrics.rejected.labels("timeout").inc()
    metrics.build.info({"kernel": "amx"})
    found = Scrape.of(metrics.render().decode())
    assert found.total("kvant_cache_bytes_per_token") == 5940
    assert found.total("kvant_requests_rejected_total") == 3
    assert found.total("kvant_requests_rejected_total", reason="busy") == 2
    assert found.labels("kvant_build_info")["kernel"] == "amx"


def test_what_is_not_there_is_none_and_not_zero() -> None:
    found = recorded.scrape()
    assert found.total("kvant_no_such") is None
    assert found.total("kvant_requests_rejected_total", reason="no such") is None
    assert found.since(found, "kvant_no_such") is None
    assert found.mean("kvant_no_such") is None
    assert found.labels("kvant_no_such") == {}


def test_counters_since_and_means() -> None:
    before, after = recorded.scrape(), recorded.scrape(vllm__num_preemptions_total=7.0)
    assert after.since(before, "vllm:num_preemptions_total") == 7
    assert Scrape({}).since(before, "vllm:num_preemptions_total") is None
    assert after.since(Scrape({}), "vllm:num_preemptions_total") == 7
    mean = after.mean("vllm:request_prompt_tokens")
    assert mean == pytest.approx(
        after.total("vllm:request_prompt_tokens_sum") / after.total("vllm:request_prompt_tokens_count")  # type: ignore[operator]
    )


def test_what_is_no_metrics_is_an_error() -> None:
    with pytest.raises(ValueError, match="html"):
        Scrape.of("<html>")

"""Lengths from live traffic: histograms of the real client library, over HTTP and from files."""

from __future__ import annotations

import random

import pytest
from prometheus_client import CollectorRegistry, Histogram, generate_latest, start_http_server

from kvant.errors import ConfigError
from kvant.plan.traffic import ANSWER, PROMPT, of_metrics
from tests.e2e.server import free_port

BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000)
LONGEST = 32768


def registry(prompts, answers, engines=1):
    """vLLM's two histograms, with its labels and its buckets."""
    made = CollectorRegistry()
    for name, values in ((PROMPT, prompts), (ANSWER, answers)):
        histogram = Histogram(name, "tokens", ["model_name", "engine"], buckets=BUCKETS, registry=made)
        for n, value in enumerate(values):
            histogram.labels("m", str(n % engines)).observe(value)
    return made


def saved(folder, made):
    file = folder / "metrics.txt"
    file.write_bytes(generate_latest(made))
    return str(file)


def test_mean_and_answer_are_those_that_were_measured(tmp_path):
    draw = random.Random(0)
    prompts = [int(draw.lognormvariate(7, 1)) + 1 for _ in range(2000)]
    answers = [int(draw.expovariate(1 / 300)) + 1 for _ in range(2000)]
    found = of_metrics(saved(tmp_path, registry(prompts, answers)), LONGEST)
    mean = (sum(prompts) + sum(answers)) / 2000
    assert found.mean == pytest.approx(mean, rel=0.01)
    assert found.answer == pytest.approx(sum(answers) / 2000)
    assert found.requests == 2000
    both = sorted(p + a for p, a in zip(prompts, answers, strict=True))
    # A bucket ends at 2 to 2.5 times its beginning.
    assert both[1000] / 2.5 <= found.quantile(0.5) <= both[1000] * 2.5
    assert both[1980] / 2.5 <= found.quantile(0.99) <= both[1980] * 2.5


def test_engines_are_added_up(tmp_path):
    one = of_metrics(saved(tmp_path, registry([100, 3000, 700, 90] * 8, [10, 20, 30, 40] * 8)), LONGEST)
    two = of_metrics(saved(tmp_path, registry([100, 3000, 700, 90] * 8, [10, 20, 30, 40] * 8, 2)), LONGEST)
    assert (one.lengths, one.shares, one.requests) == (two.lengths, two.shares, two.requests)
    assert one.requests == 32


def test_a_running_endpoint_is_asked():
    port = free_port()
    server, thread = start_http_server(port, "127.0.0.1", registry([1000] * 36 + [15000] * 4, [100] * 40))
    try:
        found = of_metrics(f"http://127.0.0.1:{port}/metrics", LONGEST)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert found.mean == pytest.approx(2500, rel=0.01)
    assert found.source == f"live traffic, http://127.0.0.1:{port}/metrics"


def test_nothing_is_longer_than_what_is_served(tmp_path):
    found = of_metrics(saved(tmp_path, registry([30000] * 30, [5000] * 30)), LONGEST)
    assert found.longest <= LONGEST


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", f"{PROMPT} is not there: is this vLLM's /metrics?"),
        ("<html>no</html>", "is not Prometheus text"),
        ("# TYPE x counter\nx_total 1\n", f"{PROMPT} is not there"),
        (
            f'# TYPE {PROMPT} histogram\n{PROMPT}_bucket{{le="1.0"}} 5\n{PROMPT}_bucket{{le="+Inf"}} 3\n'
            f"{PROMPT}_sum 3\n{PROMPT}_count 3\n",
            "counts fewer up to inf than before",
        ),
    ],
)
def test_what_is_no_traffic_is_refused(tmp_path, text, message):
    file = tmp_path / "metrics"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message.replace("?", ".")):
        of_metrics(str(file), LONGEST)


def test_a_service_that_answered_nobody_is_named(tmp_path):
    made = registry([], [])
    with pytest.raises(ConfigError, match="is not there"):
        of_metrics(saved(tmp_path, made), LONGEST)
    idle = registry([1], [1])
    text = generate_latest(idle).decode().replace(" 1.0\n", " 0.0\n")
    (tmp_path / "idle").write_text(text)
    with pytest.raises(ConfigError, match="has no requests yet"):
        of_metrics(str(tmp_path / "idle"), LONGEST)


@pytest.mark.parametrize(("number", "said"), [(1, "1 request so far"), (29, "29 requests so far")])
def test_a_warm_up_is_no_traffic(tmp_path, number, said):
    with pytest.raises(ConfigError, match=f"{said}, which may be no more than a warm-up.*--context"):
        of_metrics(saved(tmp_path, registry([5] * number, [1] * number)), LONGEST)
    assert of_metrics(saved(tmp_path, registry([5] * 30, [1] * 30)), LONGEST).requests == 30


def test_an_endpoint_that_is_not_there_is_named():
    with pytest.raises(ConfigError, match=r"--metrics http://127.0.0.1:1/metrics: .*is the service up"):
        of_metrics("http://127.0.0.1:1/metrics", LONGEST)
    with pytest.raises(ConfigError, match="cannot be read"):
        of_metrics("/nowhere/metrics", LONGEST)

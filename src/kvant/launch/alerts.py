"""Step 6: do the alert rules read, watch series that exist, stay silent now, and does an alert arrive?"""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import httpx

from kvant.errors import EngineError
from kvant.launch import rules as alert_rules
from kvant.launch.result import Item, Step, Verdict, verdict
from kvant.launch.rules import Rule
from kvant.launch.service import Service
from kvant.telemetry.scrape import Scrape

NAME = "alerts"
SHIPPED = Path(__file__).parents[3] / "deploy/prometheus/kvant.rules.yml"
"""Of the source tree; an installation without it has to name its rules."""
PROMTOOL_SECONDS = 60
SECONDS = 15.0
TESTED = "KvantLaunchCheck"


def run(service: Service, rules: Path | None, alert_url: str | None) -> Step:
    file = rules or SHIPPED
    items = list(_rules(service, file)) if file.is_file() else [_none(file)]
    return Step(NAME, [*items, _post(alert_url, service)])


def _none(file: Path) -> Item:
    return Item("rules", Verdict.NOT_RUN, f"{file} is not there; name yours: `rules` in --limits FILE")


def _rules(service: Service, file: Path) -> Iterator[Item]:
    try:
        scrape = service.scrape()
        found = alert_rules.read(file)
    except EngineError as error:
        yield Item("rules", Verdict.FAIL, str(error))
        return
    missing = sorted({name for rule in found for name in rule.series} - _known(scrape))
    why = f"{len(found)} alerts watch " + (
        f"what is not there: {', '.join(missing)}" if missing else "what is there"
    )
    yield Item("rules watch", verdict(not missing), why, "series of /metrics")
    promtool = shutil.which("promtool")
    if promtool is None:
        yield Item("rules evaluated", Verdict.NOT_RUN, "promtool is not installed (Debian: prometheus)")
        return
    yield _silent(promtool, file, found, scrape)
    yield _fired(promtool, file)


def _known(scrape: Scrape) -> set[str]:
    """Series shown now, and those that a service shows once there is something to count."""
    return set(scrape.samples) | {"kvant_drift_ratio", "kvant_requests_rejected_total", "up"}


def _silent(promtool: str, file: Path, found: list[Rule], scrape: Scrape) -> Item:
    """What the service shows now, held for an hour, must fire nothing."""
    held = {name: some for name, some in scrape.samples.items() if any(name in rule.series for rule in found)}
    series = [
        {"series": _written(name, labels), "values": f"{value:.17g}+0x60"}
        for name, some in held.items()
        for labels, value in some
        if not math.isnan(value)  # it has no notation there, and fires nothing
    ]
    checks = [{"eval_time": "59m", "alertname": rule.name, "exp_alerts": []} for rule in found]
    test = {
        "rule_files": [str(file.absolute())],
        "tests": [{"interval": "1m", "input_series": series, "alert_rule_test": checks}],
    }
    with tempfile.TemporaryDirectory(prefix="kvant-alerts-") as folder:
        written = Path(folder) / "now.json"  # JSON is YAML
        written.write_text(json.dumps(test))
        status, said = _promtool(promtool, "test", "rules", str(written))
    firing = sorted({rule.name for rule in found if f'alertname="{rule.name}"' in said})
    told = f"would fire as things are: {', '.join(firing) or said[-300:]}"
    return Item("rules silent", verdict(status == 0), "no alert fires as things are" if status == 0 else told)


def _fired(promtool: str, file: Path) -> Item:
    """The tests beside the rules: each alert fires on what it is for, and on that only."""
    tests = file.with_suffix(".test.yml")
    if not tests.is_file():
        return Item("rules fire", Verdict.NOT_RUN, f"{tests.name} is not beside {file.name}")
    status, said = _promtool(promtool, "test", "rules", str(tests))
    return Item("rules fire", verdict(status == 0), "on planted series, each" if status == 0 else said[-300:])


def _promtool(promtool: str, *words: str) -> tuple[int, str]:
    try:
        done = subprocess.run(
            [promtool, *words], capture_output=True, text=True, timeout=PROMTOOL_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)
    return done.returncode, done.stdout + done.stderr


def _post(url: str | None, service: Service) -> Item:
    """One alert in the form of Alertmanager's API v2, which ends by itself."""
    name = "test alert"
    if url is None:
        return Item(name, Verdict.NOT_RUN, "--alert-url names no webhook (http://HOST:9093/api/v2/alerts)")
    try:
        answer = httpx.post(url, json=[alert(service)], timeout=SECONDS, trust_env=False)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return Item(name, Verdict.FAIL, f"{type(error).__name__} {error}", "2xx")
    return Item(name, verdict(answer.is_success), f"answered {answer.status_code}", "2xx")


def alert(service: Service) -> Mapping[str, Any]:
    """A fire drill, marked as one."""
    now = datetime.now(timezone.utc)
    return {
        "labels": {"alertname": TESTED, "severity": "none", "instance": service.url},
        "annotations": {"summary": "A test by kvant launch-check: nothing is wrong."},
        "startsAt": now.isoformat(),
        "endsAt": (now + timedelta(minutes=5)).isoformat(),
        "generatorURL": service.metrics_url,
    }


def _written(name: str, labels: Mapping[str, str]) -> str:
    # promtool's notation of series knows no colon in a bare name's place but as part of it, as here.
    inner = ",".join(f"{label}={json.dumps(text)}" for label, text in labels.items())
    return f"{name}{{{inner}}}"

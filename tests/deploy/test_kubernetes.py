"""deploy/: manifests parse, their settings load, and every query asks for what a real gateway shows."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from ruamel.yaml import YAML

from kvant.cli.rollout import app as rollout_app
from kvant.config import load as load_engine
from kvant.gateway.settings.load import load as load_gateway
from tests.gateway.engine import Engine
from tests.gateway.running import HELLO
from tests.gateway.test_release import command, gateway, status, traffic

DEPLOY = Path(__file__).parents[2] / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
RULES = DEPLOY / "prometheus/kvant-gateway.rules.yml"
ARGUMENT = re.compile(r"\{\{args\.([\w-]+)\}\}")
SERIES = re.compile(r"\bkvant_\w+")
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)"
)


def documents(file: Path) -> list[dict[str, Any]]:
    return [dict(one) for one in YAML(typ="safe").load_all(file.read_text(encoding="utf-8"))]


ALL = {file.name: documents(file) for file in MANIFESTS}


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [one for found in ALL.values() for one in found if one["kind"] == kind]


def queries() -> Iterator[str]:
    for template in of_kind("AnalysisTemplate"):
        for metric in template["spec"]["metrics"]:
            if "prometheus" in metric["provider"]:
                yield metric["provider"]["prometheus"]["query"]


def expressions() -> list[str]:
    (rules,) = documents(RULES)
    return [rule["expr"] for group in rules["groups"] for rule in group["rules"]]


def promtool(*words: str, cwd: Path) -> None:
    done = subprocess.run(["promtool", *words], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_manifests_name_each_other() -> None:
    assert len(MANIFESTS) == 4
    for one in (one for found in ALL.values() for one in found):
        assert {"apiVersion", "kind", "metadata"} <= set(one)
    (rollout,), (route,) = of_kind("Rollout"), of_kind("HTTPRoute")
    canary = rollout["spec"]["strategy"]["canary"]
    services = {one["metadata"]["name"] for one in of_kind("Service")}
    (rule,) = route["spec"]["rules"]
    backends = [one["name"] for one in rule["backendRefs"]]
    assert backends == [canary["stableService"], canary["canaryService"]]
    mirror = rule["filters"][0]["requestMirror"]["backendRef"]["name"]
    assert {*backends, mirror} <= services
    assert canary["trafficRouting"]["plugins"]["argoproj-labs/gatewayAPI"]["httpRoute"] == "llm"
    templates = {one["metadata"]["name"] for one in of_kind("AnalysisTemplate")}
    asked = re.findall(r"'templateName': '([\w-]+)'", str(canary))
    assert set(asked) == templates


def test_every_argument_of_a_query_is_given() -> None:
    for template in of_kind("AnalysisTemplate"):
        declared = {one["name"] for one in template["spec"].get("args", ())}
        assert set(ARGUMENT.findall(str(template))) <= declared


def test_settings_in_config_maps_load(tmp_path: Path) -> None:
    maps = {one["metadata"]["name"]: one["data"] for one in of_kind("ConfigMap")}
    for name in ("kvant-judge", "llm-gateway"):
        (tmp_path / name).write_text(maps[name]["gateway.yaml"])
        assert load_gateway(tmp_path / name).settings.security.key_file is not None
    judge = load_gateway(tmp_path / "kvant-judge").settings
    assert judge.rollout.shadow.dwell == 30 * 24 * 3600
    assert judge.arms.candidate is not None
    (tmp_path / "engine").write_text(maps["llm-engine"]["kvant.yaml"])
    port = load_engine(tmp_path / "engine").serving.port
    assert load_gateway(tmp_path / "llm-gateway").settings.arms.baseline.urls == (f"http://127.0.0.1:{port}",)


def test_commands_of_the_job_exist() -> None:
    (begin,) = [one for one in of_kind("AnalysisTemplate") if one["metadata"]["name"] == "kvant-begin"]
    asked = re.findall(r"kvant rollout (\w+) --url", str(begin))
    assert asked == ["rollback", "start"]
    assert set(asked) <= {one.callback.__name__ for one in rollout_app.registered_commands if one.callback}


def test_queries_and_rules_ask_for_what_a_gateway_shows(tmp_path: Path) -> None:
    with Engine() as baseline, Engine() as candidate, gateway(tmp_path, baseline, candidate) as running:
        command(running, "start")
        traffic(running, lambda: status(running)["phase"] == "full")
        running.post({"messages": HELLO, "stream": True})
        families = list(text_string_to_metric_families(httpx.get(f"{running.url}/metrics").text))
    shown = {sample.name for family in families for sample in family.samples}
    # Of drift there is nothing to say before a window of comparisons after promotion is full.
    known = shown | {family.name for family in families}
    for text in (*queries(), *expressions()):
        names = set(SERIES.findall(text))
        assert names, text
        assert names <= known, names - known
    words = {value for family in families for one in family.samples for value in one.labels.values()}
    for text in (*queries(), *expressions()):
        for wanted in re.findall(r'(?:direction|phase|kind|state)="(\w+)"', text):
            assert wanted in words


@needs_promtool
def test_promtool_takes_every_query(tmp_path: Path) -> None:
    rules = [{"record": f"query:{n}", "expr": ARGUMENT.sub("a", one)} for n, one in enumerate(queries())]
    assert len(rules) == 5
    file = tmp_path / "queries.yml"
    with file.open("w") as opened:
        YAML().dump({"groups": [{"name": "queries", "rules": rules}]}, opened)
    promtool("check", "rules", file.name, cwd=tmp_path)


@needs_promtool
def test_promtool_takes_the_rules_and_their_tests() -> None:
    promtool("check", "rules", RULES.name, cwd=RULES.parent)
    promtool("test", "rules", RULES.with_suffix(".test.yml").name, cwd=RULES.parent)


def test_every_alert_is_fired_by_a_test() -> None:
    (rules,) = documents(RULES)
    fired = RULES.with_suffix(".test.yml").read_text()
    names = [rule["alert"] for group in rules["groups"] for rule in group["rules"]]
    assert [name for name in names if f'"{name}"' not in fired] == []

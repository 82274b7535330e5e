"""gateway.yaml: strict, with line and mend, as kvant.yaml is."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from kvant.cli import app
from kvant.errors import ConfigError
from kvant.gateway.settings import GatewaySettings, load
from kvant.gateway.settings.docs import example, markdown

PAGE = Path(__file__).parents[2] / "docs" / "gateway.md"
ARMS = "arms: {baseline: {urls: [http://127.0.0.1:8001]}}\n"


def problems(tmp_path: Path, text: str) -> str:
    file = tmp_path / "gateway.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(file)
    return str(caught.value).replace(f"{file}:", "")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "arms: is missing, and has no default"),
        ("arms: {candidate: null}", "arms.baseline: is missing, and has no default"),
        (ARMS + "listen:\n  prot: 3", "3: listen.prot: unknown field; did you mean port?"),
        (ARMS + "limit: {}", "2: limit: unknown field; did you mean limits?"),
        (ARMS + "listen: {host: 0.0.0.0}", "2: listen.host: '0.0.0.0' lets other machines in"),
        (
            ARMS + "listen: {host: 0.0.0.0}\nsecurity: {allow_remote: true}",
            "3: security.allow_remote: true needs security.key_file: `kvant keys create`",
        ),
        (ARMS + "listen: {tls_key: k.pem}", "2: listen.tls_key: 'k.pem' needs listen.tls_certificate"),
        (ARMS + "security: {allow: [10.0.0.1/8]}", "2: security.allow[0]: '10.0.0.1/8' is no network"),
        (
            "arms: {baseline: {urls: [http://a/v1]}}",
            "1: arms.baseline.urls[0]: 'http://a/v1' must end before /v1",
        ),
        ("arms: {baseline: {urls: [ftp://a]}}", "must begin with http:// or https://"),
        ("arms: {baseline: {}}", "arms.baseline.urls: [] names no engine; give urls, config or serve"),
        (
            "arms:\n  baseline:\n    urls: [http://a]\n    config: b.yaml",
            "4: arms.baseline.config: 'b.yaml' stands beside urls; keep one",
        ),
        (
            "arms:\n  baseline:\n    serve:\n      kv_cache: {key_bits: 5}",
            "4: arms.baseline.serve.kv_cache.key_bits: 5 is not one of 2, 3, 4, 8, 16; did you mean 4?",
        ),
        (
            "arms:\n  baseline:\n    serve:\n      kv_cache: {enable_quant: false, key_bits: 3}",
            "4: arms.baseline.serve.kv_cache.key_bits: 3 has no meaning for a cache that is not quantised",
        ),
        (
            "arms: {baseline: {urls: ['http://localhost:8080']}}",
            "1: arms.baseline.urls: a list of 1 holds http://localhost:8080, the gateway's own address",
        ),
        (
            "arms:\n  baseline: {urls: ['http://a:1']}\n  candidate: {urls: ['http://a:1/']}",
            "3: arms.candidate.urls: a list of 1 holds http://a:1 of the baseline, which would be released",
        ),
        (
            "arms: {baseline: {urls: [http://a], long_urls: [http://a]}}",
            "1: arms.baseline.long_urls: a list of 1 needs routing.long_characters",
        ),
        (
            ARMS + "scheduling: {min_concurrency: 9, max_concurrency: 8}",
            "2: scheduling.min_concurrency: 9 is over max_concurrency (scheduling.max_concurrency is 8",
        ),
    ],
)
def test_what_is_wrong_is_named_with_line_and_mend(tmp_path: Path, text: str, words: str) -> None:
    assert words in problems(tmp_path, text)


def test_the_example_holds_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(example())
    written = load(file)
    arms = {"arms": {"baseline": {"urls": ["http://127.0.0.1:8001"]}}}
    assert written.settings == GatewaySettings.model_validate(arms)
    assert written.origin("limits.body_bytes").startswith(str(file))
    done = CliRunner().invoke(app, ["gateway", "--check", "-c", str(file)])
    assert done.output.endswith(": ok\n")


def test_the_documentation_is_in_step_with_the_code() -> None:
    marker = "<!-- The rest is what `kvant gateway docs` prints. -->\n\n"
    assert PAGE.read_text().partition(marker)[2] == markdown(), "run: kvant gateway docs"

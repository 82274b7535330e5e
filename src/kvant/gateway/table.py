"""Where everything is, in one table: printed once, when requests can come."""

from __future__ import annotations

from collections.abc import Iterator

from kvant.gateway.app import Gateway


def rows(gateway: Gateway, url: str) -> Iterator[tuple[str, str]]:
    """What there is and where, in reading order; `url` is that of the gateway."""
    settings = gateway.settings
    keys = settings.security.key_file
    yield "API", f"{url}/v1, {'without keys' if keys is None else f'with a key of {keys}'}"
    for name, arm in settings.arms.named().items():
        urls = ", ".join(one.url for one in gateway.arms[name].replicas)
        yield name, f"{urls}{', started here: the log says when it is ready' if arm.local else ''}"
    if gateway.mounted("/rollout"):
        yield "release", f"kvant rollout start --url {url}; then kvant rollout status --url {url}"
    if gateway.mounted("/console"):
        yield "console", f"{url}/console"
    port = settings.monitoring.metrics_port
    yield "metrics", f"{url}/metrics" if port is None else f"http://127.0.0.1:{port}/metrics"
    if settings.audit.file is not None:
        yield "audit log", f"{settings.audit.file}; kvant gateway audit {settings.audit.file} verifies it"


def show(gateway: Gateway, url: str) -> None:
    for name, value in rows(gateway, url):
        print(f"{name + ':':<12}{value}")
    print(flush=True)

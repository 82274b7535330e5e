"""All settings of a gateway, and the rules between them."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from kvant.config.rules import Contradiction, Contradictions
from kvant.config.section import Section
from kvant.config.serving import is_loopback
from kvant.gateway.answers.settings import Breaker, Comparing, Patrol, Shadow
from kvant.gateway.settings.arms import Arm, Arms
from kvant.gateway.settings.limits import Limits, Routing, Scheduling, Timeouts
from kvant.gateway.settings.listen import Listen
from kvant.gateway.settings.records import Audit, Monitoring
from kvant.gateway.settings.release import Rollout
from kvant.gateway.settings.security import Security


class GatewaySettings(Section):
    """Everything `kvant gateway` can be told."""

    listen: Listen = Field(default_factory=Listen)
    arms: Arms
    security: Security = Field(default_factory=Security)
    limits: Limits = Field(default_factory=Limits)
    timeouts: Timeouts = Field(default_factory=Timeouts)
    scheduling: Scheduling = Field(default_factory=Scheduling)
    routing: Routing = Field(default_factory=Routing)
    rollout: Rollout = Field(default_factory=Rollout)
    breaker: Breaker = Field(default_factory=Breaker)
    shadow: Shadow = Field(default_factory=Shadow)
    comparing: Comparing = Field(default_factory=Comparing)
    patrol: Patrol = Field(default_factory=Patrol)
    audit: Audit = Field(default_factory=Audit)
    monitoring: Monitoring = Field(default_factory=Monitoring)

    @model_validator(mode="after")
    def _no_contradictions(self) -> GatewaySettings:
        found = list(_contradictions(self))
        if found:
            raise Contradictions(found)
        return self


def _contradictions(s: GatewaySettings) -> Iterator[Contradiction]:
    listen, security, scheduling = s.listen, s.security, s.scheduling
    for name, arm in s.arms.named().items():
        yield from _of_arm(f"arms.{name}", arm, s.routing.long_characters)
        for url in arm.urls:
            if _leads_here(url, listen):
                yield Contradiction(
                    f"arms.{name}.urls", f"holds {url}, the gateway's own address", ("listen.port",)
                )
    if s.arms.candidate is not None and (shared := set(s.arms.candidate.urls) & set(s.arms.baseline.urls)):
        yield Contradiction(
            "arms.candidate.urls",
            f"holds {min(shared)} of the baseline, which would be released against itself",
            ("arms.baseline.urls",),
        )
    if (listen.tls_certificate is None) != (listen.tls_key is None):
        lone, other = ("tls_key", "tls_certificate")
        if listen.tls_key is None:
            lone, other = other, lone
        yield Contradiction(f"listen.{lone}", f"needs listen.{other} beside it", (f"listen.{other}",))
    if not is_loopback(listen.host):
        if not security.allow_remote:
            yield Contradiction(
                "listen.host", "lets other machines in; set security.allow_remote", ("security.allow_remote",)
            )
        elif security.key_file is None:
            yield Contradiction(
                "security.allow_remote",
                "needs security.key_file: `kvant keys create`",
                ("security.key_file",),
            )
    if s.patrol.cleared > s.patrol.raised:
        yield Contradiction(
            "patrol.cleared",
            "is above patrol.raised: drift would be cleared as it is raised",
            ("patrol.raised",),
        )
    if scheduling.min_concurrency > scheduling.max_concurrency:
        yield Contradiction(
            "scheduling.min_concurrency", "is over max_concurrency", ("scheduling.max_concurrency",)
        )


def _leads_here(url: str, listen: Listen) -> bool:
    """As far as that can be told without asking for names."""
    found = urlsplit(url)
    host, port = found.hostname or "", found.port or {"http": 80, "https": 443}[found.scheme]
    own = is_loopback(host) and (is_loopback(listen.host) or listen.host in ("0.0.0.0", "::"))
    return port == listen.port and (own or host == listen.host)


def _of_arm(place: str, arm: Arm, long: int | None) -> Iterator[Contradiction]:
    ways = [name for name in ("urls", "config", "serve") if getattr(arm, name)]
    if not ways:
        yield Contradiction(f"{place}.urls", "names no engine; give urls, config or serve")
    for way in ways[1:]:
        yield Contradiction(f"{place}.{way}", f"stands beside {ways[0]}; keep one", (f"{place}.{ways[0]}",))
    if arm.replicas > 1 and arm.urls:
        yield Contradiction(f"{place}.replicas", "is for engines that the gateway starts", (f"{place}.urls",))
    strange = set(arm.long_urls) - set(arm.urls)
    if strange:
        yield Contradiction(f"{place}.long_urls", f"holds {min(strange)}, not in urls", (f"{place}.urls",))
    if arm.long_urls and long is None:
        yield Contradiction(
            f"{place}.long_urls", "needs routing.long_characters", ("routing.long_characters",)
        )

"""`arms`: who answers, and where."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError, Url

from kvant.config.section import File, Section, Text
from kvant.config.settings import Settings


def _url(text: str) -> str:
    try:
        found = Url(text)
    except ValueError:
        raise PydanticCustomError("url", "is not a URL such as http://127.0.0.1:8001") from None
    if found.scheme not in ("http", "https"):
        raise PydanticCustomError("url", "must begin with http:// or https://")
    if found.username or found.password or found.query or found.fragment:
        raise PydanticCustomError("url", "must hold neither user, query nor fragment")
    if (found.path or "/").rstrip("/").endswith("/v1"):
        raise PydanticCustomError("url", "must end before /v1, which every request brings itself")
    return text.rstrip("/")


def _distinct(urls: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(urls)) < len(urls):
        raise PydanticCustomError("distinct", "names one replica twice")
    return urls


Urls = Annotated[
    tuple[Annotated[Text, AfterValidator(_url)], ...], Field(strict=False), AfterValidator(_distinct)
]


class Arm(Section):
    """Engines that answer alike: running ones by URL, or one that the gateway starts."""

    urls: Urls = Field(default=(), description="Replicas that run already, without /v1.")
    long_urls: Urls = Field(
        default=(), description="Those of them that take prompts over routing.long_characters."
    )
    config: File | None = Field(
        default=None, description="A kvant.yaml: the gateway starts `kvant serve` with it."
    )
    serve: Settings | None = Field(
        default=None, description="The same, with the sections of a kvant.yaml written here."
    )
    replicas: int = Field(default=1, ge=1, le=64, description="Engines started of config or serve.")
    api_key_file: File | None = Field(
        default=None, description="File with the key that the arm asks for, in its first line."
    )

    @property
    def local(self) -> bool:
        """Whether the gateway starts it."""
        return self.config is not None or self.serve is not None


class Arms(Section):
    """Who answers: the 16-bit baseline, and the candidate that is to take its place."""

    baseline: Arm = Field(description="The arm that is trusted.")
    candidate: Arm | None = Field(default=None, description="The arm under test; null has none.")

    def named(self) -> dict[str, Arm]:
        """Name to arm, the baseline first."""
        found = {"baseline": self.baseline}
        return found if self.candidate is None else {**found, "candidate": self.candidate}

"""The files that gateway.yaml names: are they there, and what they should be?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from kvant import config
from kvant.config import Loaded
from kvant.engine import options
from kvant.errors import ConfigError
from kvant.gateway.answers import golden
from kvant.gateway.arms.fleet import authorisation
from kvant.gateway.keys import file as keys
from kvant.gateway.settings import GatewaySettings
from kvant.http.certificate import Certificate

LOOPBACK = {"serving.host": "127.0.0.1"}
"""As the gateway starts its engines."""


def check(loaded: Loaded[GatewaySettings]) -> None:
    """One `ConfigError` with every file that cannot be used, and the line that names it."""
    problems = []
    for field, read in _files(loaded.settings):
        try:
            read()
        except ConfigError as error:
            where = f"{loaded.origin(field)}: {field}"
            problems += [f"{where}: {line}" for line in str(error).splitlines()]
    if problems:
        raise ConfigError("\n".join(problems))


def _files(settings: GatewaySettings) -> Iterator[tuple[str, Callable[[], object]]]:
    """Fields that are set, and what reads their files."""
    listen, golden_file = settings.listen, settings.patrol.golden
    if settings.security.key_file is not None:
        yield "security.key_file", partial(keys.read, settings.security.key_file)
    if listen.tls_certificate is not None and listen.tls_key is not None:
        yield "listen.tls_certificate", partial(Certificate, listen.tls_certificate, listen.tls_key)
    for name, arm in settings.arms.named().items():
        if arm.config is not None:
            read = partial(config.load, arm.config, LOOPBACK, engine_check=options.check)
            yield f"arms.{name}.config", read
        if arm.api_key_file is not None:
            yield f"arms.{name}.api_key_file", partial(authorisation, arm)
    if golden_file is not None:
        yield "patrol.golden", partial(golden.read, golden_file)

"""The command as tests of `kvant` run it."""

from tests.cli.conftest import kvant_command

__all__ = ["kvant_command"]

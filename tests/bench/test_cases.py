"""What `--only` selects, and how it refuses what it does not know."""

from __future__ import annotations

import pytest

from kvant.bench import cases
from kvant.errors import ConfigError


def test_names_select_cases_and_formats() -> None:
    chosen, formats = cases.select(cases.DEFAULT, "head_dim=64,group=7,format=codebook4")
    assert [(c.head_dim, c.group) for c in chosen] == [(64, 7)]
    assert formats == ("codebook4",)


def test_nothing_selects_all() -> None:
    assert cases.select(cases.DEFAULT, "") == (cases.DEFAULT, cases.FORMATS)


@pytest.mark.parametrize("only", ["colour=3", "group=x", "group"])
def test_unknown_names_and_values_are_refused(only: str) -> None:
    with pytest.raises(ConfigError, match="NAME=NUMBER with a name of format, head_dim, group"):
        cases.select(cases.DEFAULT, only)


def test_an_empty_selection_says_which_part_emptied_it() -> None:
    with pytest.raises(ConfigError, match="no case is left after 'group=5'"):
        cases.select(cases.DEFAULT, "head_dim=64,group=5")

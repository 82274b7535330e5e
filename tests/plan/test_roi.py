"""The return, computed by hand; and what an assumption moves."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvant.errors import ConfigError
from kvant.plan import roi
from kvant.plan.assumptions import Range, assumptions, described
from kvant.plan.roi import Service, base, extremes, swings, value

SERVICE = Service(requests=1000, seconds=20.0, before=100, after=350, devices=2, price=3.0, watts=700)
AT = {
    "price_factor": 1.0, "hours_per_month": 730.0, "demand_factor": 1.0, "gain_realised": 0.8,
    "power_share": 0.7, "pue": 1.3, "energy_price": 0.15, "energy_billed": 1.0, "engineering_days": 20.0,
    "day_rate": 800.0, "operation_days": 1.0, "worse_share": 0.0002, "worse_cost": 0.05,
}  # fmt: skip


def test_a_return_by_hand():
    found = value(SERVICE, AT)
    # 1000 requests need 10 instances of 100, or 4 of 100 + 0.8 x 250 = 300: 6 fewer, of 2 devices each.
    assert (found.instances_before, found.instances_after) == (10, 4)
    assert found.kwh_saved == pytest.approx(12 * 730 * 0.7 * 0.7 * 1.3)
    assert found.saved == pytest.approx(12 * 730 * 3.0 + found.kwh_saved * 0.15)
    # 1000 at once, 20 s each, are 50 a second.
    assert found.quality == pytest.approx(50 * 730 * 3600 * 0.0002 * 0.05)
    assert (found.operation, found.once) == (800, 16_000)
    assert found.net == pytest.approx(found.saved - 800 - found.quality)
    assert found.payback == pytest.approx(16_000 / found.net)
    assert found.year == pytest.approx(12 * found.net - 16_000)


def test_what_never_pays_back_says_so():
    assert value(SERVICE, AT | {"worse_share": 0.1}).payback == math.inf
    assert value(SERVICE, AT | {"gain_realised": 0.0}).saved == 0


def test_a_tornado_is_sorted_and_each_bar_is_one_assumption():
    assumed = {name: Range(low=x, base=x, high=x) for name, x in AT.items()}
    assumed["price_factor"] = Range(low=0.5, base=1, high=1.5)
    assumed["operation_days"] = Range(low=0.5, base=1, high=4)
    found = swings(SERVICE, assumed)
    assert [one.name for one in found[:2]] == ["price_factor", "operation_days"]
    assert all(one.width == 0 for one in found[2:])
    assert found[0].width == pytest.approx(12 * 12 * 730 * 3.0)
    assert found[1].width == pytest.approx(12 * 3.5 * 800)
    assert found[0].low == pytest.approx(value(SERVICE, AT | {"price_factor": 0.5}).year)


def test_low_and_high_take_every_assumption_at_its_worse_and_better_end():
    low, middle, high = extremes(SERVICE, assumptions())
    assert low.year < middle.year < high.year
    assert middle == value(SERVICE, base(assumptions()))


@given(st.integers(1, 10_000), st.integers(1, 2000), st.integers(0, 2000))
def test_more_room_never_needs_more_instances(requests, before, more):
    service = Service(requests, 10.0, before, before + more, 1, 2.0, 300)
    found = value(service, AT)
    assert found.instances_after <= found.instances_before
    assert found.saved >= 0


def test_assumptions_are_described_and_may_be_replaced(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("assumptions:\n  day_rate: {low: 700, base: 900, high: 950}\n")
    found = assumptions(file, ["pue=1.1"])
    assert found["day_rate"] == Range(low=700, base=900, high=950)
    assert found["pue"] == Range(low=1.1, base=1.1, high=1.1)
    assert found["hours_per_month"] == assumptions()["hours_per_month"]
    assert set(found) == set(AT)
    assert all(described(name) for name in found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "assumptions:\n  day_rat: {low: 1, base: 1, high: 1}\n",
            "mine.yaml:2: assumptions.day_rat: unknown field",
        ),
        ("assumptions:\n  day_rate:\n    low: 3\n    base: 2\n    high: 9\n", "mine.yaml:2: .*must ascend"),
        (
            "assumptions:\n  day_rate: {low: 1, high: 1}\n",
            "mine.yaml:2: assumptions.day_rate.base: is missing",
        ),
        ("assumptions:\n  pue: {low: -1, base: 1, high: 1}\n", "mine.yaml:2: assumptions.pue.low"),
        ("assumptions:\n  pue: {low: 1, base: 1, hihg: 1}\n", "pue.hihg: unknown field; did you mean high"),
        ("assumption: {}\n", "mine.yaml:1: assumption: unknown field; did you mean assumptions"),
    ],
)
def test_wrong_assumptions_are_named_with_their_line(tmp_path, text, message):
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        assumptions(file)


@pytest.mark.parametrize("text", ["pue", "pue=", "pue=x", "pue=-1", "pue=nan", "pue=inf"])
def test_a_wrong_number_is_refused(text):
    with pytest.raises(ConfigError, match=r"expected a number from 0, as in pue=1\.3"):
        assumptions(None, [text])


def test_an_unknown_assumption_is_suggested():
    with pytest.raises(ConfigError, match=r"'day-rate' is not assumed; did you mean day_rate\?"):
        assumptions(None, ["day-rate=1"])


def test_every_assumption_moves_something():
    names = {one.name for one in swings(SERVICE, assumptions(None, ["energy_billed=1"])) if one.width}
    assert names == set(AT) - {"energy_billed"}
    assert roi.value(SERVICE, AT).saved != roi.value(SERVICE, AT | {"energy_billed": 0.0}).saved

"""The table of weights by KV cache from rows that are counted by hand."""

from __future__ import annotations

from typing import Any

from benchmarks.weights.table import Mean, mean, table


def _row(preset: str, kl: float, **more: Any) -> dict[str, Any]:
    found = {"preset": preset, "kl": kl, "kl_se": 3e-3, "top1": 0.9, "dppl": 0.01, "dppl_se": 0.004}
    return found | {"weights": "Kernel"} | more


def test_texts_are_averaged_and_their_errors_are_independent() -> None:
    found = mean([_row("max", 0.010), _row("max", 0.030, kl_se=4e-3)])
    assert found == Mean(kl=0.02, kl_se=2.5e-3, top1=0.9, dppl=0.01, dppl_se=found.dppl_se)
    assert found.dppl_se == (2 * 0.004**2) ** 0.5 / 2


def test_both_errors_are_seen_apart_and_added() -> None:
    rows = [_row("16-bit", 0.05, against="base"), _row("max", 0.07, against="base"), _row("max", 0.03)]
    whole = {"rows": [_row("max", 0.02, weights=""), _row("int8", 0.001, weights="")], "settings": {}}
    lines = table({"rows": rows, "settings": {"control": "base"}}, whole)
    assert [line.split(" | ")[1:3] for line in lines] == [["16-bit", "50.00 ± 3.00"], ["max", "70.00 ± 3.00"]]
    assert lines[1].split(" | ")[5] == "30.00 ± 3.00"
    assert [line.split(" | ")[-1] for line in lines] == ["50.00 |", "70.00 |"]


def test_the_model_itself_has_no_share_of_weights() -> None:
    whole = {"rows": [_row("max", 0.03, weights="")], "settings": {}}
    lines = table(whole, whole)
    assert lines[0].startswith("| bf16 | 16-bit | 0.00 ± 0.00 | 1.000")
    assert lines[1].split(" | ")[2] == lines[1].split(" | ")[5] == "30.00 ± 3.00"

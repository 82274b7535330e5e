"""Without a terminal a long command tells where it is, and not more often than is useful."""

from __future__ import annotations

from kvant.cli.steps import Lines


def test_a_line_a_step_its_end_and_one_a_minute() -> None:
    lines: list[str] = []
    now = 0.0
    tell = Lines(lines.append, lambda: now)
    tell("baseline: starts", "", 0, 0)
    for done in range(1, 91):
        now += 1.0
        tell("baseline: needle", "", done, 90)
    tell("gate needle", "candidate", 0, 0)
    assert lines == [
        "baseline: starts",
        "baseline: needle: 1 of 90",
        "baseline: needle: 61 of 90",
        "baseline: needle: 90 of 90",
        "gate needle: candidate",
    ]

"""The return of a plan as text: three cases, and a tornado in letters."""

from __future__ import annotations

from collections.abc import Iterator

from kvant.plan import roi
from kvant.plan.assumptions import described
from kvant.plan.plan import Plan
from kvant.plan.text import counted, wrapped

BAR = 14
NEVER = float("inf")


def lines(plan: Plan) -> Iterator[str]:
    if plan.service is None:
        yield "No return: there is nothing to compare with bf16 here."
        return
    assert plan.chosen
    service, assumed = plan.service, plan.request.assumed
    cases = roi.extremes(service, assumed)
    name = plan.chosen.fit.precision.name
    yield from wrapped(
        f"Return of {name} instead of bf16, for {counted(service.requests)} at once ({service.before:,} "
        f"and {service.after:,} an instance), a month; prices are EXAMPLES, put in your own:"
    )
    yield f"  {'':22} {'low':>15} {'base':>15} {'high':>15}"
    facts = {
        "instances before": [f"{x.instances_before:,}" for x in cases],
        "instances after": [f"{x.instances_after:,}" for x in cases],
        "energy saved, kWh": [f"{x.kwh_saved:,.0f}" for x in cases],
        "saved": [f"{x.saved:,.0f}" for x in cases],
        "operation": [f"{0 - x.operation:,.0f}" for x in cases],
        "worse answers": [f"{0 - x.quality:,.0f}" for x in cases],
        "once": [f"{0 - x.once:,.0f}" for x in cases],
        "pays back in months": ["never" if x.payback == NEVER else f"{x.payback:.1f}" for x in cases],
        "after a year": [f"{x.year:,.0f}" for x in cases],
    }
    yield from (f"  {name:22} {a:>15} {b:>15} {c:>15}" for name, (a, b, c) in facts.items())
    yield ""
    yield "After a year, with one assumption at its low and high and the others at base:"
    found = roi.swings(service, assumed)
    most = max((one.width for one in found), default=0) or 1
    for one in found:
        bar = "#" * round(BAR * one.width / most)
        ends = f"{one.at.low:g}..{one.at.high:g}"
        yield f"  {one.name:17} {ends:>12} {one.low:>13,.0f} {one.high:>13,.0f}  {bar}".rstrip()
    yield from wrapped(
        "Assumed: " + "; ".join(f"{n} {x.base:g} {described(n)}" for n, x in assumed.items()) + "."
    )

"""A plan as text for 80 columns, and as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from kvant.plan import roi
from kvant.plan.assumptions import described
from kvant.plan.plan import Plan, Row
from kvant.plan.room import GIB

WIDTH = 80
NAME = 18
HEAD = (
    f"{'':{NAME}}  bits   bytes    pool    blocks   requests that fit  tokens/s\n"
    f"{'cache':{NAME}}      /token     GiB            longest mixed  rec.   at most"
)
BAR = 14


def lines(plan: Plan) -> list[str]:
    """Everything, in reading order."""
    found = [*_head(plan), "", *HEAD.splitlines(), *(_row(row) for row in plan.rows)]
    found += [
        text
        for row in plan.rows
        if row.fit.refusal
        for text in _wrapped(f"{row.fit.precision.name}: {row.fit.refusal}")
    ]
    if plan.reason:
        found += ["", *_wrapped(f"Nothing fits: {plan.reason}.")]
        found += ["Any one of these would do:" if plan.changes else "No single change would do."]
        return found + [text for one in plan.changes for text in _wrapped(one, "  - ", "    ")]
    return [*found, "", *_legend(plan), "", *_limits(plan), "", *_return(plan)]


def _head(plan: Plan) -> Iterator[str]:
    asked = plan.request
    model, room, requests = asked.model, asked.room, asked.contexts
    layer = model.layers[0]
    shape = (
        f"latent vectors of {layer.head_dim}"
        if layer.latent
        else f"{layer.kv_heads} KV heads of {layer.head_dim}"
    )
    windows = sum(1 for one in model.layers if one.window)
    if windows:
        shape += f", {windows} with a window of {max(one.window for one in model.layers):,}"
    yield from _wrapped(
        f"{model.name}: {len(model.layers)} layers, {shape}; {model.parameters / 1e9:.2f} billion parameters, "
        f"{model.weight_bytes / GIB:.2f} GiB of weights ({model.weights_from})"
    )
    each = f"{room.ranks} x {room.device.summary}, tensor parallel" if room.ranks > 1 else room.device.summary
    memory = (
        f"{room.kv_memory / GIB:g} GiB for the cache"
        if room.kv_memory is not None
        else f"{room.device.memory_gib:g} GiB of memory, vLLM takes {room.utilisation:.0%}"
    )
    yield from _wrapped(f"on {each}: {memory}; {room.device.bandwidth_gb_s:g} GB/s")
    counted = f" ({requests.requests:,} requests)" if requests.requests else ""
    yield from _wrapped(
        f"requests of {requests.source}{counted}: {requests.mean:,.0f} tokens on average, half up to "
        f"{requests.quantile(0.5):,}, 99 % up to {requests.quantile(0.99):,}, at most {requests.longest:,}; "
        f"answers of {requests.answer:,.0f}"
    )


def _row(row: Row) -> str:
    one = row.fit
    name = one.precision.name if len(one.precision.name) <= NAME else one.precision.name[: NAME - 1] + "~"
    if one.refusal:
        return f"{name:{NAME}}  not served, see below"
    speed = f"{row.speed.tokens:>9,.0f}" if row.speed else f"{'-':>9}"
    return (
        f"{name:{NAME}} {one.bits:5.2f} {one.token_bytes:7,} {max(one.pool, 0) / GIB:7.2f} {one.num_blocks:9,} "
        f"{one.longest_fit:7,} {one.requests:6,} {one.max_num_seqs:5,} {speed}"
    )


def _legend(plan: Plan) -> Iterator[str]:
    """What the numbers assume; each has an option."""
    assert plan.chosen
    room, one = plan.request.room, plan.chosen.fit
    estimate = (
        ""
        if room.kv_memory is not None
        else (
            f" Beside the pool a device holds {one.weights / GIB:.2f} GiB of weights, an estimated "
            f"{one.activations / GIB:.2f} of activations and {room.overhead_gib:g} of overhead."
        )
    )
    kept = (
        f" Of {one.precision.name} the pool lacks {one.kept / GIB:.2f} GiB of 16-bit copies."
        if one.kept
        else ""
    )
    yield from _wrapped(
        f"bytes of a token on one device, every scale counted; longest: requests of {plan.request.contexts.longest:,} "
        f"tokens that fit whatever happens; mixed: of these requests; rec.: with {room.margin:.0%} of the pool left "
        f"free; tokens/s: if decoding reads memory at {room.efficiency:.0%} of its bandwidth and nothing else takes "
        f"time.{kept}{estimate}"
    )


def _limits(plan: Plan) -> Iterator[str]:
    assert plan.limits and plan.chosen and plan.chosen.speed
    one, quick, room = plan.limits, plan.chosen.speed, plan.request.room
    yield f"Limits for {plan.chosen.fit.precision.name}:"
    yield from (f"  {text}" for text in one.yaml(room))
    yield from _wrapped(
        f"Overload begins where vllm:kv_cache_usage_perc stays above {one.alert_usage:.2f}. A step of "
        f"{one.max_batch:,} requests takes {1000 * quick.seconds:.1f} ms or more ({quick.cache_share:.0%} of it for "
        f"the cache); the queue empties in about {room.wait:g} s."
    )


def _return(plan: Plan) -> Iterator[str]:
    if plan.service is None:
        yield "No return: there is nothing to compare with bf16 here."
        return
    assert plan.chosen
    service, assumed = plan.service, plan.request.assumed
    cases = roi.extremes(service, assumed)
    yield from _wrapped(
        f"Return of {plan.chosen.fit.precision.name} instead of bf16, for {service.requests:,.0f} requests at once "
        f"({service.before:,} and {service.after:,} an instance), a month; prices are examples:"
    )
    yield f"  {'':22} {'low':>15} {'base':>15} {'high':>15}"
    facts = {
        "instances before": [f"{x.instances_before:,}" for x in cases],
        "instances after": [f"{x.instances_after:,}" for x in cases],
        "energy saved, kWh": [f"{x.kwh_saved:,.0f}" for x in cases],
        "saved": [f"{x.saved:,.0f}" for x in cases],
        "operation": [f"{-x.operation:,.0f}" for x in cases],
        "worse answers": [f"{-x.quality:,.0f}" for x in cases],
        "once": [f"{-x.once:,.0f}" for x in cases],
        "pays back in months": ["never" if x.payback == float("inf") else f"{x.payback:.1f}" for x in cases],
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
        yield f"  {one.name:17} {ends:>12} {one.low:>13,.0f} {one.high:>13,.0f}  {bar}"
    yield from _wrapped(
        "Assumed: " + "; ".join(f"{n} {x.base:g} {described(n)}" for n, x in assumed.items()) + "."
    )


def _wrapped(text: str, first: str = "", later: str = "") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=later, break_on_hyphens=False)


def facts(plan: Plan) -> dict[str, Any]:
    """Everything, for --json."""
    asked = plan.request
    model = {k: v for k, v in asdict(asked.model).items() if k != "layers"}
    found: dict[str, Any] = {
        "model": model | {"layers": [asdict(layer) for layer in asked.model.layers]},
        "room": asdict(asked.room) | {"device": asked.room.device.model_dump()},
        "contexts": asdict(asked.contexts) | {"mean": asked.contexts.mean},
        "concurrency": asked.concurrency,
        "rows": [_row_facts(row) for row in plan.rows],
        "fits": not plan.reason,
        "reason": plan.reason,
        "changes": list(plan.changes),
        "assumptions": {name: one.model_dump() for name, one in asked.assumed.items()},
    }
    if plan.chosen and plan.limits:
        found |= {"chosen": plan.chosen.fit.precision.name, "limits": asdict(plan.limits)}
    if plan.service:
        cases = zip(("low", "base", "high"), roi.extremes(plan.service, asked.assumed), strict=True)
        found |= {
            "service": asdict(plan.service),
            "return": {name: _return_facts(one) for name, one in cases},
            "swings": [
                {"name": one.name, "low": one.low, "high": one.high}
                for one in roi.swings(plan.service, asked.assumed)
            ],
        }
    return found


def _row_facts(row: Row) -> dict[str, Any]:
    one = {k: v for k, v in vars(row.fit).items() if k != "precision"}
    named = {"precision": row.fit.precision.name, "source": row.fit.precision.source}
    return named | one | {"speed": asdict(row.speed) if row.speed else None}


def _return_facts(one: roi.Return) -> dict[str, Any]:
    never = one.payback == float("inf")
    return asdict(one) | {"net": one.net, "payback_months": None if never else one.payback}

"""A plan as text for 80 columns: what fits, on what assumptions, under which limits."""

from __future__ import annotations

from collections.abc import Iterator

from kvant.plan import worth
from kvant.plan.plan import Plan, Row
from kvant.plan.precision import Ours
from kvant.plan.room import GIB
from kvant.plan.text import counted, wrapped

NAME = 18
HEAD = (
    f"{'':{NAME}}  bits     bytes   pool    blocks requests that fit tokens/s",
    f"{'cache':{NAME}}        /token    GiB           longest mixed rec.  at most",
)


def lines(plan: Plan) -> list[str]:
    """Everything, in reading order."""
    found = [*_head(plan), "", *HEAD, *(text for row in plan.rows for text in _row(row))]
    for one in (row.fit for row in plan.rows if row.fit.refusal):
        found += wrapped(f"{one.precision.name}: {one.refusal}")
    if plan.reason:
        found += ["", *wrapped(f"Nothing fits: {plan.reason}.")]
        found += ["Any one of these would do:" if plan.changes else "No single change would do."]
        return found + [text for change in plan.changes for text in wrapped(change, "  - ", "    ")]
    return [*found, "", *_legend(plan), "", *_limits(plan), "", *worth.lines(plan)]


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
    yield from wrapped(
        f"{model.name}: {len(model.layers)} layers, {shape}; {model.parameters / 1e9:.2f} billion "
        f"parameters, {model.weight_bytes / GIB:.2f} GiB of weights ({model.weights_from})"
    )
    each = f"{room.ranks} x {room.device.summary}, tensor parallel" if room.ranks > 1 else room.device.summary
    memory = (
        f"{room.kv_memory / GIB:g} GiB for the cache"
        if room.kv_memory is not None
        else f"{room.device.memory_gib:g} GiB of memory, vLLM takes {room.utilisation:.0%}"
    )
    yield from wrapped(f"on {each}: {memory}; {room.device.bandwidth_gb_s:g} GB/s")
    how_many = f" ({counted(requests.requests)})" if requests.requests else ""
    yield from wrapped(
        f"requests of {requests.source}{how_many}: {requests.mean:,.0f} tokens on average, half up to "
        f"{requests.quantile(0.5):,}, 99 % up to {requests.quantile(0.99):,}, at most {requests.longest:,}; "
        f"answers of {requests.answer:,.0f}"
    )


def _row(row: Row) -> list[str]:
    one = row.fit
    if one.refusal:
        return [f"{one.precision.name:{NAME}}  not served, see below"]
    above, name = ([], one.precision.name) if len(one.precision.name) <= NAME else ([one.precision.name], "")
    pool, speed = max(one.pool, 0) / GIB, f"{row.speed.tokens:,.0f}" if row.speed else "-"
    return [
        *above,
        f"{name:{NAME}} {one.bits:5.2f} {one.token_bytes:9,} {pool:6.2f} {one.num_blocks:9,} "
        f"{one.longest_fit:6,} {one.requests:6,} {one.max_num_seqs:5,} {speed:>8}",
    ]


def _legend(plan: Plan) -> Iterator[str]:
    """What the numbers assume; each has an option."""
    assert plan.chosen
    room, one = plan.request.room, plan.chosen.fit
    longest = plan.request.contexts.longest
    text = (
        f"bytes of a token on one device, every scale counted; longest: requests of {longest:,} tokens "
        f"that fit whatever happens; mixed: of these requests; rec.: with {room.margin:.0%} of the pool left "
        f"free; tokens/s: if decoding reads memory at {room.efficiency:.0%} of its bandwidth and nothing "
        "else takes time."
    )
    if one.kept:
        text += f" The pool of {one.precision.name} lacks {one.kept / GIB:.2f} GiB of 16-bit copies."
    if room.kv_memory is None:
        text += (
            f" Beside it a device holds {one.weights / GIB:.2f} GiB of weights, an estimated "
            f"{one.activations / GIB:.2f} of activations and {room.overhead_gib:g} of overhead."
        )
    if room.device.kind == "gpu" and any(isinstance(row.fit.precision, Ours) for row in plan.rows):
        text += " Kvant's kernels run on CPUs so far: on a GPU its rows say what its pages would hold."
    yield from wrapped(text)


def _limits(plan: Plan) -> Iterator[str]:
    assert plan.limits
    assert plan.chosen
    assert plan.chosen.speed
    one, quick, room = plan.limits, plan.chosen.speed, plan.request.room
    yield f"Limits for {plan.chosen.fit.precision.name}:"
    yield from (f"  {text}" for text in one.lines(plan.chosen.fit.precision, room))
    yield from wrapped(
        f"Overload begins where vllm:kv_cache_usage_perc stays above {one.alert_usage:.2f}. A step of "
        f"{counted(one.max_batch)} takes {1000 * quick.seconds:.1f} ms or more, {quick.cache_share:.0%} of "
        f"it for the cache; the queue empties in about {room.wait:g} s."
    )

"""`kvant bench attention`: ours, vLLM's own operations, torch SDPA and a plain read, taking turns.

All contenders of a case run round by round in one process, each on a context that is not in a cache,
so what else the machine does hits all alike: judge ratios, not times.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from kvant.bench.cases import Case
from kvant.bench.ours import Packed, copies
from kvant.bench.plot import Panel

Run = Callable[[int], None]
AGAINST = ("vllm_bf16", "vllm_vectors", "vllm_fp8", "sdpa_bf16")


def sdpa(case: Case) -> Run:
    """torch's own attention in bfloat16 over contiguous keys and values."""
    import torch

    shape = (case.batch, case.kv_heads, case.context, case.head_dim)
    count = copies(case.vectors * case.head_dim * 4)
    key = torch.randn(count, *shape, dtype=torch.bfloat16)
    value = torch.randn(count, *shape, dtype=torch.bfloat16)
    heads = case.kv_heads * case.group
    query = torch.randn(case.batch, heads, case.tokens, case.head_dim, dtype=torch.bfloat16)
    past = case.context - case.tokens
    mask = torch.ones(case.tokens, case.context, dtype=torch.bool).tril(past) if case.tokens > 1 else None

    def run(i: int) -> None:
        torch.nn.functional.scaled_dot_product_attention(
            query, key[i % count], value[i % count], attn_mask=mask, enable_gqa=case.group > 1
        )

    return run


def measure(runs: dict[str, Run], threads: int, seconds: float) -> dict[str, list[float]]:
    """Seconds of each call, in rounds until `seconds` are over (5 at least, 200 at most)."""
    clock = time.thread_time if threads == 1 else time.perf_counter
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run(0)
    started = time.monotonic()
    for i in range(1, 201):
        for name, run in runs.items():
            before = clock()
            run(i)
            times[name].append(clock() - before)
        if i >= 5 and time.monotonic() - started > seconds:
            break
    return times


def rows(
    case: Case, formats: tuple[str, ...], threads: int, seconds: float, kernel: str = "auto"
) -> Iterator[dict[str, Any]]:
    """One row for each format, all of them measured in the same rounds."""
    import torch

    from kvant.engine.baseline import VllmAttention

    torch.set_num_threads(threads)
    packed = {fmt: Packed(case, fmt, kernel) for fmt in formats}
    runs: dict[str, Run] = {fmt: p.run for fmt, p in packed.items()}
    runs |= {f"read {fmt}": p.read for fmt, p in packed.items()}
    vllm = VllmAttention(case, "auto", copies)
    runs |= {"vllm_bf16": vllm.run, "vllm_fp8": VllmAttention(case, "fp8", copies).run}
    if vllm.isa == "amx":  # what vLLM runs on a machine that has none
        runs["vllm_vectors"] = VllmAttention(case, "auto", copies, isa="vec").run
    runs["sdpa_bf16"] = sdpa(case)
    times = measure(runs, threads, seconds)
    median = {name: statistics.median(values) for name, values in times.items()}
    for fmt, p in packed.items():
        low, _, high = statistics.quantiles(times[fmt], n=4)
        ratio = {name: median[name] / median[fmt] for name in AGAINST if name in median}
        ratio["plain_read"] = median[f"read {fmt}"] / median[fmt]
        yield {
            "format": fmt,
            "kernel": p.paged.kernel.name,
            "vllm_isa": vllm.isa,
            "shape": asdict(case),
            "threads": threads,
            "clock": "thread CPU time" if threads == 1 else "wall",
            "rounds": len(times[fmt]),
            "median": median[fmt],
            "spread": (high - low) / median[fmt],
            "ns_per_vector": median[fmt] / case.vectors * 1e9,
            "read_gb_per_second": p.bytes / median[f"read {fmt}"] / 1e9,
            "error": p.error(),
            "ratio": ratio,
        }


def panels(found: Sequence[dict[str, Any]]) -> list[Panel]:
    """The rows as bars: a panel for each contender, a series for each format."""
    cases = list(dict.fromkeys(str(Case(**row["shape"])) for row in found))
    by = {(str(Case(**row["shape"])), row["format"]): row["ratio"] for row in found}
    formats = list(dict.fromkeys(row["format"] for row in found))
    return [
        Panel(title, cases, {fmt: [by.get((case, fmt), {}).get(name) for case in cases] for fmt in formats})
        for name, title in (("vllm_bf16", "vLLM bf16"), ("vllm_fp8", "vLLM fp8"), ("sdpa_bf16", "torch SDPA"))
    ]

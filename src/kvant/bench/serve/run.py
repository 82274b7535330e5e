"""The comparison itself: servers up, requests in turns, one row for each case and format.

Only the server whose turn it is computes; the others stay up and idle. What else the machine does hits all
alike: judge ratios, not times.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kvant.bench.serve import figures, shares, sides
from kvant.bench.serve.cases import BATCHED, Case
from kvant.bench.serve.client import Broken, Stream, turn
from kvant.bench.serve.fit import Group
from kvant.bench.serve.model import Model
from kvant.bench.serve.server import Server, end_all
from kvant.bench.serve.sides import STOCK, Setup, Side
from kvant.child import free_port
from kvant.errors import ConfigError

FEWEST, MOST = 3, 9
"""Rounds of a case, however long or short they are."""

SPIN = 1.5
"""Seconds, with some to spare, that an idle vLLM worker goes on looking for work, with a core of its own."""
REST = shares.LAG + SPIN
"""Seconds between turns: after one, Kvant's counts are asked for once more, and the worker looks again."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """How to run. `rounds` None: until `seconds` are over, `FEWEST` at least and `MOST` at most."""

    model: Model
    formats: tuple[str, ...]
    threads_bind: str
    eager: bool = True
    block_size: int | None = None
    rounds: int | None = None
    seconds: float = 150.0
    start_seconds: float = 300.0

    def setup(self, group: Group) -> Setup:
        """What the servers of a group are all given."""
        return Setup(
            self.model.folder,
            group.memory,
            group.max_model_len,
            group.max_num_seqs,
            self.threads_bind,
            self.eager,
            self.block_size,
        )

    def sides(self, group: Group, ports: Sequence[int]) -> list[Side]:
        """Stock vLLM first, then Kvant in each format."""
        setup, (first, *others) = self.setup(group), ports
        ours = (sides.kvant(setup, fmt, port) for fmt, port in zip(self.formats, others, strict=True))
        return [sides.stock(setup, first), *ours]


def settings(plan: Plan, groups: Sequence[Group]) -> dict[str, Any]:
    """What a result file says of how it was measured; the ports are chosen when the servers start.

    Refuses what no server could serve, before any is started: `ConfigError`.
    """
    if not plan.formats:
        raise ConfigError("--formats: names no format; int8 or codebook4,int8 do")
    if not groups:
        raise ConfigError("no case is left that this model and machine can serve; the warnings tell why")
    return {
        "model": plan.model.folder.name,
        "threads_bind": plan.threads_bind,
        "eager": plan.eager,
        "block_size": plan.block_size or "each side's own",
        "max_num_batched_tokens": BATCHED,
        "prefix_caching": False,
        "ratio": "of medians; above 1: Kvant is better (throughput up, tpot and ttft down)",
        "servers": [
            {
                "cases": [str(case) for case in group.cases],
                "memory": group.memory,
                "started": {
                    side.name: {"command": [shown(word) for word in side.command], "env": side.env}
                    for side in plan.sides(group, range(8000, 8001 + len(plan.formats)))
                },
            }
            for group in groups
        ],
    }


def shown(word: str) -> str:
    """A word of a command as a result file shows it: without the paths of this machine's user."""
    return "python3" if word == sys.executable else word.replace(str(Path.home()), "~")


def rows(plan: Plan, groups: Sequence[Group], say: Say) -> Iterator[dict[str, Any]]:
    """One row for each case and format; all formats of a case share the rounds, and stock vLLM's figures."""
    for group in groups:
        with serving(plan, group, say) as servers:
            for case in group.cases:
                before = {server.name: shares.read(server.url) for server in servers}
                turns = measure(plan, case, servers, say)
                time.sleep(shares.LAG)
                after = {server.name: shares.read(server.url) for server in servers}
                found = {name: figures.summary(some) for name, some in turns.items()}
                for fmt in plan.formats:
                    yield {
                        **asdict(case),
                        "memory": group.memory,
                        "fixed_memory": bool(case.memory),
                        "format": fmt,
                        "rounds": len(turns[fmt]),
                        "stock": found[STOCK],
                        "kvant": found[fmt],
                        "ratio": figures.ratios(found[STOCK], found[fmt]),
                        "shares": shares.between(before[fmt], after[fmt]),
                    }


def measure(plan: Plan, case: Case, servers: Sequence[Server], say: Say) -> dict[str, list[figures.Turn]]:
    """The figures of each server's turns, in rounds; all servers get the same prompts in a round."""
    turns: dict[str, list[figures.Turn]] = {server.name: [] for server in servers}
    started = time.monotonic()
    for number in range(1, (plan.rounds or MOST) + 1):
        sent = prompts(case, plan.model.vocabulary, number)
        for server in servers:
            time.sleep(REST)
            before = time.monotonic()
            turns[server.name].append(figures.of_turn(_turn(server, sent, case.output)))
            say(f"{case}: round {number}, {server.name}, {time.monotonic() - before:.1f} s")
        if plan.rounds is None and number >= FEWEST and time.monotonic() - started > plan.seconds:
            break
    return turns


def prompts(case: Case, vocabulary: int, seed: int) -> list[list[int]]:
    """Random token ids, of each stream and round their own, so that no prefix is shared."""
    source = random.Random(f"{case} {seed}")
    return [source.choices(range(vocabulary), k=case.context) for _ in range(case.streams)]


@contextmanager
def serving(plan: Plan, group: Group, say: Say) -> Iterator[list[Server]]:
    """All servers of a group, ready and warm; whatever happens, none is left."""
    ports = [free_port() for _ in range(1 + len(plan.formats))]
    servers: list[Server] = []
    with TemporaryDirectory(prefix="kvant-bench-") as folder:
        try:
            for number, (side, port) in enumerate(zip(plan.sides(group, ports), ports, strict=True)):
                # One after another: a server that starts measures the memory it finds.
                before = time.monotonic()
                servers.append(Server(side, port, Path(folder) / f"{number}.log"))
                servers[-1].wait(plan.start_seconds)
                say(f"{side.name} is up with {group.memory} GiB, {time.monotonic() - before:.0f} s")
            warm = Case(min(64, group.max_model_len - 8), group.max_num_seqs, 8)
            for server in servers:
                _turn(server, prompts(warm, plan.model.vocabulary, 0), warm.output)
            yield servers
        finally:
            end_all(servers)


def _turn(server: Server, sent: list[list[int]], output: int) -> list[Stream]:
    try:
        return turn(server.url, sent, output)
    except Broken as broken:
        raise server.failure(str(broken)) from broken

"""A gateway's rollout in a process of its own, to be killed: ticks without rest and says what it does."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

from kvant.rollout.controller import Controller
from kvant.rollout.evidence import Comparison
from kvant.rollout.stores import open_store
from tests.rollout.conftest import Clock, quick

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.rollout.gateway"])


class Gateway:
    """`weights` gives what `choose` goes by, told before the evidence of the next tick is added."""

    def __init__(self, where: str) -> None:
        self.weights, theirs = CONTEXT.Pipe(duplex=False)
        self._process = CONTEXT.Process(target=_run, args=(where, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def weight(self) -> float:
        assert self.weights.poll(20), "the gateway says nothing"
        return float(self.weights.recv())

    def kill(self) -> list[float]:
        """With SIGKILL; what it had said and nobody had heard."""
        self._process.kill()
        self._process.join()
        said = []
        try:
            while True:
                said.append(float(self.weights.recv()))
        except EOFError:
            return said


@contextmanager
def gateway(where: str) -> Iterator[Gateway]:
    one = Gateway(where)
    try:
        yield one
    finally:
        one.kill()
        one.weights.close()


def _run(where: str, weights: Connection) -> None:
    clock = Clock()
    controller = Controller(quick(), open_store(where), "low-bit", monotonic=clock)
    while True:
        weights.send(controller.status()["weight"])
        for _ in range(4):
            controller.observe(Comparison(0.0, 0.003, 0.98, 100))
        clock.now += 0.5
        controller.tick()

"""The queue before an arm."""

from __future__ import annotations

import asyncio

import pytest

from kvant.gateway.admission.line import Line
from kvant.gateway.call import Priority
from kvant.gateway.settings import Scheduling
from kvant.http.body import Gone, Refused


def run(slots: int, body, **settings: float) -> None:
    async def main() -> None:
        line = Line(Scheduling(**settings), lambda: slots)
        await asyncio.wait_for(body(line), 5)
        assert line.running == 0
        assert line.waiting("interactive") == line.waiting("batch") == 0

    asyncio.run(main())


async def visit(line: Line, priority: Priority, log: list[str], name: str, seconds: float = 0.01) -> None:
    async with line.place(priority, asyncio.get_running_loop().create_future()):
        log.append(name)
        await asyncio.sleep(seconds)


def test_interactive_requests_go_before_batch_ones_that_came_earlier() -> None:
    log: list[str] = []

    async def body(line: Line) -> None:
        tasks = []
        for name, priority in (("a", "batch"), ("b", "batch"), ("c", "interactive"), ("d", "interactive")):
            tasks.append(asyncio.ensure_future(visit(line, priority, log, name)))
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)

    run(1, body)
    assert log == ["a", "c", "d", "b"]


def test_a_full_queue_and_a_long_wait_are_refused_with_retry_after() -> None:
    async def body(line: Line) -> None:
        log: list[str] = []
        first = asyncio.ensure_future(visit(line, "batch", log, "first", 0.3))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(visit(line, "batch", log, "second"))
        await asyncio.sleep(0)
        with pytest.raises(Refused) as full:
            await visit(line, "batch", log, "third")
        assert (full.value.refusal.status, full.value.refusal.reason) == (503, "queue_full")
        assert full.value.refusal.retry_after == 1
        with pytest.raises(Refused) as late:
            await second
        assert late.value.refusal.reason == "queue_timeout"
        await first
        assert log == ["first"]

    run(1, body, queue_batch=1, queue_seconds=0.1)


@pytest.mark.parametrize("how", ["cancelled", "gone"])
def test_who_leaves_while_waiting_leaves_no_slot_taken(how: str) -> None:
    async def body(line: Line) -> None:
        log: list[str] = []
        first = asyncio.ensure_future(visit(line, "interactive", log, "first", 0.05))
        await asyncio.sleep(0)
        gone = asyncio.get_running_loop().create_future()

        async def waiting() -> None:
            async with line.place("interactive", gone):
                log.append("never")

        second = asyncio.ensure_future(waiting())
        await asyncio.sleep(0)
        if how == "gone":
            gone.set_result(None)
        else:
            second.cancel()
        with pytest.raises((Gone, asyncio.CancelledError)):
            await second
        await first
        await visit(line, "interactive", log, "third")
        assert log == ["first", "third"]

    run(1, body)


def test_a_slot_won_in_the_moment_of_leaving_goes_to_the_next() -> None:
    async def body(line: Line) -> None:
        log: list[str] = []
        leave = asyncio.Event()

        async def first() -> None:
            async with line.place("interactive", asyncio.get_running_loop().create_future()):
                await leave.wait()

        holder = asyncio.ensure_future(first())
        await asyncio.sleep(0)
        second = asyncio.ensure_future(visit(line, "interactive", log, "second"))
        third = asyncio.ensure_future(visit(line, "interactive", log, "third"))
        await asyncio.sleep(0.01)
        leave.set()
        await holder  # second's turn is set, but it has not run yet
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        await third
        assert log == ["third"]

    run(1, body)

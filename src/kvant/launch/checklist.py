"""The list, step by step, each kept as soon as it is done. The server is started only if a step is left."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from kvant.bench.serve.server import Server, end_all
from kvant.bench.serve.sides import Side
from kvant.child import free_port
from kvant.config import Settings
from kvant.errors import ConfigError
from kvant.launch import alerts, interface, memory, quality, soak, speed
from kvant.launch.notebook import Notebook
from kvant.launch.result import Item, Step, Verdict
from kvant.launch.service import Service
from kvant.launch.settings import Settings as Limits
from kvant.quality.gate.arm import PATIENT, START_SECONDS, Arm
from kvant.quality.gate.client import KEYS, api_key

Say = Callable[[str, str], None]
"""A step, and what it does."""


@dataclass(frozen=True)
class Request:
    """What the command line says. Without `url`, the service is started here from `config`."""

    config: Path | None
    settings: Settings
    limits: Limits
    suites: tuple[str, ...]
    url: str | None = None
    metrics_url: str | None = None
    model: str | None = None
    baseline_url: str | None = None
    fresh: bool = False


class Interrupted(Exception):
    """By Ctrl-C: `steps` are those that are done, and the others as not run."""

    def __init__(self, steps: list[Step]) -> None:
        super().__init__("interrupted")
        self.steps = steps


@dataclass(frozen=True)
class Task:
    """A step that is to be done: its name, the limits it is held against, and how."""

    name: str
    limits: Any
    do: Callable[[], Step]


def run(asked: Request, say: Say) -> list[Step]:
    """Every step, in order. `EngineError` where the service does not start or answer; `Interrupted`."""
    checked = {"settings": asked.settings.masked(), "url": asked.url, "model": asked.model}
    notebook = Notebook(checked, asked.fresh)
    found: list[Step] = []
    tasks: list[Task] = []
    try:
        with ExitStack() as stack:
            running = Lazily(asked, notebook, stack, say)
            tasks += _tasks(asked, running, say)
            for task in tasks:
                step = notebook.read(task.name, task.limits)
                if step is None:
                    _ = running.service  # its start is not the step's time
                    say(task.name, "begins")
                    began = time.monotonic()
                    step = replace(task.do(), seconds=time.monotonic() - began)
                    notebook.write(step, task.limits)
                found.append(step)
    except KeyboardInterrupt:
        left = [_open(task, notebook.read(task.name, task.limits)) for task in tasks[len(found) :]]
        raise Interrupted([*found, *left]) from None
    return found


def _open(task: Task, earlier: Step | None) -> Step:
    """A step that an interrupted run did not come to; an earlier one may have."""
    return earlier or Step(task.name, [Item(task.name, Verdict.NOT_RUN, "interrupted before it was done")])


class Lazily:
    """The service and the baseline of the gate, started when first asked for."""

    def __init__(self, asked: Request, notebook: Notebook, stack: ExitStack, say: Say) -> None:
        self._asked, self._notebook, self._stack, self._say = asked, notebook, stack, say
        self._service: Service | None = None
        self._baseline: Arm | None = None
        self._beside = stack.enter_context(ExitStack())
        self.log: Path | None = None
        """Of the server that was started here."""

    @property
    def service(self) -> Service:
        if self._service is None:
            asked = self._asked
            url, metrics = asked.url, asked.metrics_url
            if url is None:
                self.log = self._notebook.place("server.log")
                self._say("start", f"kvant serve, its log is {self.log}")
                url = self._stack.enter_context(_serving(asked, self.log))
                port = asked.settings.monitoring.metrics_port
                metrics = metrics or (f"http://127.0.0.1:{port}/metrics" if port else None)
            self._service = Service.find(url, metrics, asked.model)
            self._notebook.same_service(memory.facts(self._service))
        return self._service

    @property
    def baseline(self) -> Arm:
        if self._baseline is None:
            asked = self._asked
            beside = quality.baseline(
                self.service, asked.settings.model.path, asked.limits.gate, asked.baseline_url
            )
            self._say("gate", "the baseline starts")
            self._baseline = self._beside.enter_context(beside)
        return self._baseline

    def alone(self) -> Service:
        """The service, once the baseline has ended: it takes memory and cores."""
        self._beside.close()
        self._baseline = None
        return self.service


def _tasks(asked: Request, running: Lazily, say: Say) -> Iterator[Task]:
    limits, settings = asked.limits, asked.settings
    given = None if asked.url and not asked.config else settings
    keyed = settings.security.api_key_file is not None
    yield Task(interface.NAME, None, lambda: interface.run(running.service, keyed))
    yield Task(
        memory.NAME,
        limits.memory.model_dump(mode="json"),
        lambda: memory.run(running.service, given, limits.memory.tolerance),
    )
    yield Task(
        speed.NAME,
        limits.speed.model_dump(mode="json"),
        lambda: speed.run(
            running.service, limits.speed, settings.serving.max_batch, partial(say, speed.NAME)
        ),
    )
    for suite in (*limits.gate.suites, *(one for one in asked.suites if one not in limits.gate.suites)):
        yield _suite(suite, asked, running, say)
    yield Task(
        soak.NAME,
        limits.soak.model_dump(mode="json"),
        lambda: soak.run(running.alone(), limits.soak, running.log, partial(say, soak.NAME)),
    )
    rules, alert_url = limits.rules, limits.alert_url
    held = [str(rules), _content(rules or alerts.SHIPPED), alert_url]
    yield Task(alerts.NAME, held, lambda: alerts.run(running.service, rules, alert_url))


def _suite(suite: str, asked: Request, running: Lazily, say: Say) -> Task:
    gate = asked.limits.gate

    def do() -> Step:
        if suite not in asked.suites:
            return quality.left_out(suite)

        def tell(what: str, done: int, total: int) -> None:
            say(quality.name(suite), f"{what}, {done} of {total}")

        return quality.run(running.service, running.baseline, suite, gate, {}, tell)

    section = getattr(gate, suite)
    limits = {
        "seed": gate.seed,
        "alpha": gate.alpha,
        "looks": gate.looks,
        "baseline": asked.baseline_url,
        suite: section.model_dump(mode="json"),
        "content": _content(getattr(section, "file", None)),
    }
    return Task(quality.name(suite), limits, do)


def _content(file: Path | None) -> str | None:
    """Digest of what a file holds: with another content it is another limit."""
    return hashlib.sha256(file.read_bytes()).hexdigest() if file and file.is_file() else None


@contextmanager
def _serving(asked: Request, log: Path) -> Iterator[str]:
    """`kvant serve` with this configuration on a free port of loopback; ended in the end."""
    port = free_port()
    words = ["-c", str(asked.config)] if asked.config else []
    words += ["--host", "127.0.0.1", "--port", str(port)]
    command = (sys.executable, "-c", "from kvant.cli import main; main()", "serve", *words)
    _use_key(asked.settings)
    server = Server(Side("kvant serve", command, PATIENT), port, log)
    try:
        server.wait(START_SECONDS, "/ready")
        yield server.url
    finally:
        end_all([server])


def _use_key(settings: Settings) -> None:
    """Ask with the first key of the configuration's own file, where no other is set."""
    file = settings.security.api_key_file
    if file is None or api_key():
        return
    try:
        lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    except OSError as error:
        raise ConfigError(f"security.api_key_file: {file} cannot be read: {error.strerror}") from None
    keys = [line for line in lines if line and not line.startswith("#")]
    if not keys:
        raise ConfigError(f"security.api_key_file: {file} holds no key")
    os.environ[KEYS[0]] = keys[0]

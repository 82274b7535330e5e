"""Does it write text? Sampled, because small models loop in any precision when they decode greedily."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from kvant.doctor.finding import Finding, fail, ok, unknown, warn
from kvant.doctor.registry import service_check
from kvant.doctor.running.checks.quality import NONSENSE
from kvant.doctor.running.patient import Patient, cut
from kvant.doctor.running.reading import Reading
from kvant.errors import EngineError
from kvant.launch.service import Service
from kvant.quality.gate.client import Answer
from kvant.quality.gate.material import Ruler, passage
from kvant.quality.gate.suites.long import Task, defect

WHAT = "garbled output"
TEXTS, BEFORE, ANSWER, HEAT = 6, 192, 96, 0.8


@service_check
def garbled(patient: Patient) -> Iterator[Finding]:
    if not isinstance(patient.service, Service):
        yield unknown(WHAT, patient.lacks("texts"))
        return
    if patient.hangs:
        yield unknown(WHAT, patient.lacks("the load"))
        return
    try:
        defects = [why for prompt, answer in _written(patient.service) if (why := _defect(prompt, answer))]
    except EngineError as error:
        limit = cut(str(error))
        yield unknown(WHAT, f"a text is not written within {limit[0]}, {limit[1]}" if limit else str(error))
        return
    said = f"{len(defects)} of {TEXTS} texts of {ANSWER} tokens are defective"
    if len(defects) * 2 >= TEXTS or (defects and _nonsense(patient.reading)):
        yield fail(WHAT, f"{said} ({defects[0]}); {cause(patient.reading)}", mend(patient.reading))
    elif defects:
        yield warn(WHAT, f"{said} ({defects[0]})", "`kvant gate --suites long` compares with 16 bits")
    else:
        yield ok(WHAT, said.replace(" are defective", ": no loop, broken character or change of script"))


def _nonsense(reading: Reading | str) -> bool:
    return not isinstance(reading, str) and reading.near > NONSENSE


def cause(reading: Reading | str) -> str:
    """Which side of the machine is to blame, by what reading a text has shown."""
    if isinstance(reading, str):
        return "whether weights or cache are to blame is not measurable: it does not score text"
    if _nonsense(reading):
        return "text with next to no context is as bad: the weights, not the cache"
    if reading.harm.low > 0:
        return "text with little context is read well, with much context badly: the cache"
    return "given text is read well: look at sampling parameters, the chat template and the tokeniser"


def mend(reading: Reading | str) -> str:
    if _nonsense(reading):
        return "verify the model's files and fetch them again"
    return "serve --preset int8 or kv_cache.enable_quant: false beside it and compare: --baseline URL"


def _written(service: Service) -> list[tuple[str, Answer]]:
    with service.client() as client, ThreadPoolExecutor(TEXTS // 2) as pool:
        ruler, rng = Ruler.of(client.length), random.Random("garbled")
        room = service.longest and service.longest - ANSWER
        prompts = [passage(rng, ruler, BEFORE, room) for _ in range(TEXTS)]

        def write(number: int) -> tuple[str, Answer]:
            return prompts[number], client.complete(prompts[number], ANSWER, temperature=HEAT, seed=number)

        return list(pool.map(write, range(TEXTS)))


def _defect(prompt: str, answer: Answer) -> str:
    return defect(Task(prompt, 0, False), answer, ANSWER)

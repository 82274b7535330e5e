"""Does it start? From /ready, and from the log of a start that failed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kvant.doctor.finding import Finding, fail, ok, unknown, warn
from kvant.doctor.registry import service_check
from kvant.doctor.running.patient import Patient

WHAT = "start"
OTHER = "name the URL of the service itself, and its model and key where it asks for them"

KNOWN = (
    (r"\[Errno 98\]|address already in use|serving\.port: .* in use",
     "another process listens on the port", "end it, or choose another serving.port"),
    (r"SHA-256 is|does not match its manifest|is damaged|is truncated|Error while deserializing header",
     "a file is damaged", "fetch the model again (`kvant models pull NAME --force`), or calibrate again"),
    (r"the recipe was made for another model",
     "the recipe belongs to other weights", "calibrate this model: `kvant calibrate MODEL`"),
    (r"do not fit kv_cache\.max_cache_blocks|larger than the (maximum number of tokens|available KV cache)"
     r"|is larger than the available KV cache memory|No available memory for the cache blocks",
     "the longest request does not fit the cache",
     "raise kv_cache.memory_gib or max_cache_blocks, or lower serving.max_context"),
    (r"does not hold the sinks and recent windows",
     "16-bit copies of so many sequences fill the cache",
     "raise kv_cache.memory_gib or lower serving.max_batch"),
    (r"CUDA out of memory|Cannot allocate memory|MemoryError|DefaultCPUAllocator: can't allocate|oom-kill"
     r"|signal 9|SIGKILL",
     "the memory ran out, or the system ended the process for it",
     "lower kv_cache.memory_gib or engine.max_num_batched_tokens, or raise the container's limit"),
    (r"the cache that runs is not the one configured",
     "the start-up check found another cache than was configured",
     "the line names the layer; `kvant doctor`"),
    (r"torchvision|torchaudio|torchcodec",
     "a library beside torch does not fit it", "pip uninstall -y torchvision torchaudio torchcodec"),
    (r"vLLM refuses its options|unknown field|unrecognized arguments|did you mean",
     "an option is wrong", "the line names it; `kvant config check -c FILE`"),
    (r"native kernels are not built", "Kvant's kernels are not built", "make setup"),
    (r"SIGILL|Illegal instruction", "the processor lacks an instruction", "`kvant doctor` names what it has"),
    (r"No space left on device", "a disk, or /dev/shm, is full", "free it; --shm-size=1g for a container"),
)  # fmt: skip
"""What a log says, what that means, and what mends it; the first that is found is the cause."""


@service_check
def start(patient: Patient) -> Iterator[Finding]:
    if patient.status in (200, 404) and not patient.ready and isinstance(patient.service, str):
        yield fail(WHAT, f"something else answers: {patient.service}", OTHER)
    elif patient.status == 200 and not patient.ready:
        yield unknown(WHAT, "/ready answers 200 and says nothing: it is not `kvant serve`")
    elif patient.status == 200:
        yield ok(WHAT, f"ready: {patient.ready.get('formats', 'it does not say which cache')}")
        if isinstance(patient.service, str):
            yield fail(f"{WHAT} (model)", patient.service, "--model NAME; a key in KVANT_GATE_API_KEY")
    elif patient.status == 404:
        yield unknown(WHAT, "answers, and has no /ready: it is not `kvant serve`")
    elif patient.status is not None:
        phase, reason = patient.ready.get("status", patient.status), patient.ready.get("reason", "gives none")
        if phase == "loading":
            yield warn(WHAT, f"still loading: {reason}", "wait; a preset is calibrated once, in minutes")
        elif phase == "draining":
            yield warn(WHAT, f"draining: {reason}", "it was asked to end; start it again")
        else:
            yield fail(WHAT, f"/ready says {phase}: {reason}", "give its log: --log FILE")
    elif patient.log is None:
        yield fail(WHAT, f"nothing answers on {patient.url}", "give its log: --log FILE; `kvant doctor`")
    if patient.log is not None:
        yield from of_log(patient.log, patient.status == 200)


def of_log(text: str, up: bool) -> Iterator[Finding]:
    """The first known cause, from its last mention on; else the last error line as it stands."""
    what = f"{WHAT} (log)"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [
        line for line in lines if re.search(r"error|exception|killed|signal|fatal", line, re.IGNORECASE)
    ]
    for pattern, cause, mend in KNOWN:
        said = [line for line in errors if re.search(pattern, line, re.IGNORECASE)]
        if said:
            yield (warn if up else fail)(what, f"{cause}: {said[-1][-300:]}", mend)
            return
    if errors:
        yield (warn if up else fail)(
            what,
            f"no known cause; its last error: {errors[-1][-300:]}",
            "`kvant doctor`",
        )
    elif up:
        yield ok(what, "no error in it")
    else:
        yield unknown(what, f"no error in its {len(lines)} lines; it may have been killed", "see dmesg")

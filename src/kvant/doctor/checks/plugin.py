"""Will vLLM find the plugin? If not, it serves a 16-bit cache without a word."""

from __future__ import annotations

from collections.abc import Iterator

from kvant.doctor.finding import Finding, fail, ok
from kvant.doctor.machine import Machine
from kvant.doctor.registry import check

INSTALL = "install Kvant into this environment: make setup (or pip install 'kvant[cpu]')"


@check
def plugin(machine: Machine) -> Iterator[Finding]:
    answer = machine.probe["plugin"]
    if answer.error:
        yield fail("vllm plugin", f"does not load: {answer.error}", INSTALL)
    elif not answer.facts["registered"]:
        yield fail("vllm plugin", "no entry point kvant in the group vllm.general_plugins", INSTALL)
    else:
        yield ok("vllm plugin", f"{', '.join(answer.facts['registered'])} registers")
    allowed = machine.env.get("VLLM_PLUGINS")
    if allowed is not None and "kvant" not in allowed.split(","):
        yield fail(
            "VLLM_PLUGINS",
            f"{allowed!r} leaves Kvant out: vLLM would not load the plugin",
            f"unset VLLM_PLUGINS, or set it to {','.join([*filter(None, allowed.split(',')), 'kvant'])}",
        )

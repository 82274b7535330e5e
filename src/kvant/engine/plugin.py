"""The entry point vLLM calls in every process (group `vllm.general_plugins`).

It looks at vLLM's command line (`kvant.engine.early`) and registers where our attention backend is found:
vLLM has no configuration yet at this point. The choice between our backend and the stock one is made later,
by `kvant.engine.selection`. vLLM only logs an import error of a plugin module, so this one imports nothing
that can fail; everything it raises from `register` itself stops the process.
"""

from __future__ import annotations

SELECTION = "kvant.engine.selection"

NAMES = {
    "CUSTOM": "Backend",
    # On CPU vLLM resolves `--attention-backend CUSTOM` to CPU_ATTN.
    "CPU_ATTN": "Backend",
    # MLA models get these there without a word; selection refuses when the cache was to be ours.
    "CPU_MLA": "CpuMla",
    "AMX_MLA": "AmxMla",
}


def register() -> None:
    """Register where our backend is found, and end an engine with its server. Idempotent."""
    import sys

    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

    from kvant.engine import early
    from kvant.engine.orphans import follow_parent

    early.check(sys.argv)

    for name, attribute in NAMES.items():
        if name in AttentionBackendEnum.__members__:  # other versions have other names, and must still start
            register_backend(AttentionBackendEnum[name], f"{SELECTION}.{attribute}")
    follow_parent()

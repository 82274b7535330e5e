"""The entry point vLLM calls in every process (group `vllm.general_plugins`).

It registers where our attention backend is found and nothing else: vLLM has no configuration yet at
this point. The choice between our backend and the stock one is made later, by
`kvant.engine.selection`. vLLM only logs an import error of a plugin module, so this one imports
nothing that can fail; everything it raises from `register` itself stops the process.
"""

from __future__ import annotations

SELECTION = "kvant.engine.selection"


def register() -> None:
    """Register the backend under CUSTOM (any platform) and as the override of CPU_ATTN. Idempotent."""
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

    # On CPU vLLM resolves `--attention-backend CUSTOM` to CPU_ATTN, elsewhere to CUSTOM itself.
    register_backend(AttentionBackendEnum.CUSTOM, f"{SELECTION}.Backend")
    register_backend(AttentionBackendEnum.CPU_ATTN, f"{SELECTION}.Backend")
    # MLA models get these there without a word; selection refuses when the cache was to be ours.
    register_backend(AttentionBackendEnum.CPU_MLA, f"{SELECTION}.CpuMla")
    register_backend(AttentionBackendEnum.AMX_MLA, f"{SELECTION}.AmxMla")

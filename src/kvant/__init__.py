"""Kvant: low-bit KV cache for vLLM.

The core (formats, transforms, cache, kernels, config) imports neither torch nor vllm;
only `kvant.engine` does.
"""

__version__ = "0.1.0"
__all__ = ["__version__"]

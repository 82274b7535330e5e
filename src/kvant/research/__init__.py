"""A Kvant cache for transformers: `model.generate(past_key_values=KvantCache(model, spec))`.

The same pages, kernels and 16-bit tokens as under vLLM, which it does not need.
"""

from kvant.research.cache import KvantCache

__all__ = ["KvantCache"]

"""Pages: how a vLLM block is laid out in bytes, what a cache is made of, and who may read it."""

from kvant.cache.identity import PageIdentity
from kvant.cache.layout import PageLayout
from kvant.cache.spec import CacheSpec

__all__ = ["CacheSpec", "PageIdentity", "PageLayout"]

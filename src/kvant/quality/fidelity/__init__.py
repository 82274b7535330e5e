"""Paired comparison of a quantised KV cache with the 16-bit one, on any model and any text."""

"""API keys: hashed at rest, with scopes, expiry, limits of their own, and rotation that overlaps."""

"""`kvant bench gateway`: what a proxy adds to a token's way, against the engine without it."""

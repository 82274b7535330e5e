"""Is a quantised cache as good as the 16-bit one? Measured through the engine, and simulated in torch."""

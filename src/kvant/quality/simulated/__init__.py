"""A quantised cache in plain torch: agrees with the engine, and does what no kernel of ours does (peers)."""

"""Whether two arms answer alike: signs of degeneration, breaker, shadow, comparison, patrol."""

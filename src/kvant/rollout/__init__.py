"""Releasing a candidate arm by evidence: what is measured, when it suffices, and what follows. No I/O here
but the store; time is an argument, so that a week can be simulated in a second."""

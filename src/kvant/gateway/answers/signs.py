"""The names of what can be wrong with an answer, from its text alone."""

from __future__ import annotations

REPETITION = "repetition"
"""The text goes round in a loop."""
GIBBERISH = "gibberish"
"""Characters that no text has."""
SCRIPT = "script"
"""It leaves the scripts of its prompt, unasked."""
RUNAWAY = "runaway"
"""It was cut at its limit, far longer than the baseline's answers are."""
JSON = "json"
"""JSON was asked for, and this is none."""
TOOL_CALL = "tool_call"
"""Arguments of a tool call that are no JSON object."""
EMPTY = "empty"
"""It stopped at once, without a word."""
REFUSAL = "refusal"
"""The request was refused, and the baseline answered it."""

SIGNS = (REPETITION, GIBBERISH, SCRIPT, RUNAWAY, JSON, TOOL_CALL, EMPTY, REFUSAL)

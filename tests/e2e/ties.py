"""Greedy answers of one prompt, computed in matrix products of different shapes, and where they may part."""

from __future__ import annotations

from openai.types import CompletionChoice

NEAR = 0.3
"""Nats between two tokens that bf16 may swap: its steps are 0.125 wide where the logits of SmolLM2 lie (16
to 32), and the two products may round both of them."""


def part_only_at_a_tie(one: CompletionChoice, other: CompletionChoice) -> bool:
    """Whether the answers are the same up to a token where `one` itself found both about as likely.

    After such a token they are answers to different prompts, so nothing more is asked of them. Both need
    `logprobs`, and the tokens at a tie have to be among those listed.
    """
    pairs = zip(one.logprobs.tokens, other.logprobs.tokens, strict=True)
    parted = next((at for at, (mine, its) in enumerate(pairs) if mine != its), None)
    if parted is None:
        return True
    likely = one.logprobs.top_logprobs[parted]
    its = likely.get(other.logprobs.tokens[parted], float("-inf"))
    return likely[one.logprobs.tokens[parted]] - its <= NEAR

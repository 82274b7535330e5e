"""The front door: one OpenAI-compatible address before several arms, and the proof that they answer alike."""

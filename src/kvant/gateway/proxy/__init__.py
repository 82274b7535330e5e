"""One call from its client to an arm and back."""

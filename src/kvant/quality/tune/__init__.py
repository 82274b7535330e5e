"""Which layer is stored in how many bits: measured by layer, searched exactly, verified on other text."""

"""What is applied to a key or value before it is stored: orthogonal, seeded, with an identity.

Knows linear algebra only: no formats, no pages, no torch.
"""

from kvant.transforms.hadamard import mix, unmix
from kvant.transforms.rotation import ROTATION_VERSION, Rotation

__all__ = ["ROTATION_VERSION", "Rotation", "mix", "unmix"]

"""What is applied to a key or value before it is stored: seeded rotations, calibrated transforms.

Knows linear algebra only: no formats, no pages, no torch.
"""

from kvant.transforms.calibrated import Calibration, KeyTransform, ValueTransform
from kvant.transforms.hadamard import mix, unmix
from kvant.transforms.rotation import ROTATION_VERSION, Rotation

__all__ = ["ROTATION_VERSION", "Calibration", "KeyTransform", "Rotation", "ValueTransform", "mix", "unmix"]

"""Every error Kvant raises on purpose.

KvantError
├── ConfigError     a configuration value is wrong, unknown or contradictory
├── FormatError     a storage format was named that does not exist
├── GeometryError   a shape (head_dim, block size, heads) that a format or kernel cannot serve
├── CalibrationError  calibrated transforms are missing, damaged or of another model
├── IdentityError   packed pages, rotations or codebooks of two sides do not match
├── KernelError     a kernel was asked for something it does not do, or is not there
├── ModelError      a model is missing, damaged or cannot be converted
├── EngineError     vLLM is absent, of a wrong version, or does not run what was configured
└── RolloutError    a rollout cannot do what was asked in its phase
    └── StoreError  a rollout's state cannot be read or kept; it may be later
"""

from __future__ import annotations


class KvantError(Exception):
    """Base of all errors that Kvant raises on purpose; the message names the input and the mend."""


class ConfigError(KvantError):
    """A configuration value is wrong, unknown or contradictory."""


class FormatError(KvantError):
    """A storage format was named that does not exist."""


class GeometryError(KvantError):
    """A shape that a format or kernel cannot serve."""


class CalibrationError(KvantError):
    """Calibrated transforms (or the recipe that names them) are missing, damaged or of another model."""


class IdentityError(KvantError):
    """Two sides that must agree on rotation, format or layout do not."""


class KernelError(KvantError):
    """A kernel was asked for something it does not do, or is not there."""


class ModelError(KvantError):
    """A model is missing, damaged or cannot be converted."""


class EngineError(KvantError):
    """vLLM is absent, of a wrong version, or does not run what was configured."""


class NoRoom(EngineError):
    """An engine has no room for a question that can wait; this says nothing of what it would answer."""


class RolloutError(KvantError):
    """A rollout cannot do what was asked in its phase."""


class StoreError(RolloutError):
    """A rollout's state cannot be read or kept; it may be later."""

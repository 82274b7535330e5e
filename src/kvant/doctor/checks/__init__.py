"""One file per topic; importing this package registers all checks, in the order of the report."""

# isort: off
from kvant.doctor.checks import software
from kvant.doctor.checks import plugin
from kvant.doctor.checks import kernels
from kvant.doctor.checks import threads
from kvant.doctor.checks import memory
from kvant.doctor.checks import storage

__all__ = ["kernels", "memory", "plugin", "software", "storage", "threads"]

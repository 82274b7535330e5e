"""One file per topic; importing this package registers all checks, in the order of the report."""

# isort: off
from kvant.doctor.running.checks import start
from kvant.doctor.running.checks import quality
from kvant.doctor.running.checks import garbled
from kvant.doctor.running.checks import memory
from kvant.doctor.running.checks import blocks
from kvant.doctor.running.checks import attention
from kvant.doctor.running.checks import latency
from kvant.doctor.running.checks import threads

__all__ = ["attention", "blocks", "garbled", "latency", "memory", "quality", "start", "threads"]

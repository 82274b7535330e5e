"""Is this machine ready to serve? Small checks, each of which names what it found and its mend.

To add a check: a function in `checks/` under `@check`, taking the `Machine` and yielding `Finding`s.
What needs a foreign library to be imported is asked of `probe`, a process of its own.
"""

from kvant.doctor.examine import Examination, examine
from kvant.doctor.finding import Finding, Level
from kvant.doctor.machine import Machine

__all__ = ["Examination", "Finding", "Level", "Machine", "examine"]

"""`make bench`: what each format saves and costs. ARGS go to `benchmarks/fidelity.py`."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
runpy.run_path(str(Path(__file__).with_name("fidelity.py")), run_name="__main__")

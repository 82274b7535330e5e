"""The snippet in docs/transformers.md, as it stands there, on a tiny model."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.research import tiny

PAGE = Path(__file__).parents[2] / "docs" / "transformers.md"


def test_the_snippet_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {letter: n for n, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    letters = Tokenizer(models.BPE(words, []))
    letters.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    PreTrainedTokenizerFast(tokenizer_object=letters).save_pretrained(tmp_path)
    tiny.model(vocab_size=len(words)).save_pretrained(tmp_path)

    (snippet,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert '"path/to/model"' in snippet
    found: dict[str, object] = {}
    exec(snippet.replace("path/to/model", str(tmp_path)), found)
    assert "bits for each number" in capsys.readouterr().out
    assert found["logits"].shape[:2] == found["ids"].shape  # type: ignore[attr-defined]

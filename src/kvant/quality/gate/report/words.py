"""Every word of a report in English and Chinese, and how numbers are written."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Literal

from kvant.quality.gate.outcome import Result
from kvant.quality.gate.verdict import Check

Language = Literal["en", "zh"]
Words = Mapping[str, str]

_CHINESE = {
    "lang": "zh",
    "title": "质量关卡报告",
    "baseline": "基线",
    "candidate": "候选",
    "model": "模型",
    "seed": "种子",
    "verdict": "结论",
    "pass": "通过",
    "fail": "未通过",
    "inconclusive": "证据不足",
    "suite": "测试集",
    "check": "检查项",
    "measured": "测得值",
    "interval": "区间",
    "margin": "界限",
    "method": "方法",
    "tasks": "题数",
    "seconds": "秒",
    "scores": "得分（基线 → 候选）",
    "examples": "两者分歧或均错之处",
    "context": "上下文",
    "expected": "预期",
    "heatmap": "各格正确率",
    "depth": "深度",
    "length": "长度 × 针数",
    "where": "位置",
    "inconclusive is not pass": "“证据不足”不等于通过：区间跨越界限；应增加 looks 或题数。",
    "plot": "区间与界限",
    "machine": "测量环境",
    "KL (nats)": "KL 散度（nat）",
    "top-1 differs": "首选词不同的比例",
    "perplexity grows": "困惑度增幅",
    "perplexity": "困惑度",
    "right": "正确率",
    "expected answers gained": "预期答案的增减",
    "right answers gained": "正确答案的增减",
    "part clearly": "明显分歧的比例",
    "repetition grows": "重复片段的增幅",
    "repeated": "重复片段",
    "sound texts gained": "完好文本的增减",
    "sound": "完好文本",
    "score gained": "得分增减",
    "score": "得分",
}

ENGLISH_TEXT = {
    "lang": "en",
    "title": "Quality gate",
    "scores": "scores (baseline → candidate)",
    "examples": "where the arms part, or both are wrong",
    "heatmap": "share of right answers",
    "length": "length × keys",
    "plot": "intervals and margins",
    "inconclusive is not pass": "Inconclusive is not pass: an interval spans its margin. Add looks or tasks.",
}


class _Words(dict[str, str]):
    """A word that has no translation stands for itself."""

    def __missing__(self, word: str) -> str:
        return word


WORDS: Mapping[Language, Words] = {"en": _Words(ENGLISH_TEXT), "zh": _Words(_CHINESE)}

NATS = "KL (nats)"


def amount(check: Check, value: float) -> str:
    """A share in percent, nats as they are."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞" if value < 0 else "–"
    if check.name == NATS:
        return f"{value:.4f}"
    return f"{value:.1%}" if abs(value) < 100 else f"{value:.3g}×"


def scores(result: Result, words: Words) -> Iterator[tuple[str, str]]:
    """Name and `baseline → candidate` of each score."""
    for name, pair in result.judgement.scores.items():
        shown = (f"{one:.4g}" if name == "perplexity" else f"{one:.1%}" for one in pair)
        yield words[name], " → ".join(shown)

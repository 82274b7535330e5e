"""Sentences that suites and looks compose, in Chinese: each a form with places for what varies.

They are recognised by their form, so that a suite need not know that reports have languages; a test holds
what suites say against these. What a server or a model wrote stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kvant.quality.gate.report.words import Words

_FORMS: Sequence[tuple[str, str]] = (
    (r"inconclusive after ([\d, ]+) tasks, asked on", "做完 {0} 题时证据不足，已追加新题"),
    (
        r"failed early, after (\d+) of (\d+) tasks \(error (.+)\)",
        "做完 {0}/{1} 题即提前判定未通过（误判率 {2}）",
    ),
    (r"the candidate does not serve: (.*)", "候选无法提供服务：{0}"),
    (r"the candidate failed after (\d+) of (\d+) tasks: (.*)", "候选在 {0}/{1} 题之后出错：{2}"),
    (r"(\d+) of (\d+) answers are the same token by token", "{1} 个回答中有 {0} 个逐词元相同"),
    (r"the baseline has (\S+): it has little to lose here", "基线仅 {0}：此处几乎没有可损失的"),
    (
        r"(\d+) runs of (\d+) of (\d+) positions in (\d+) texts",
        "{3} 篇文本、{2} 个位置，每 {1} 个一段，共 {0} 段",
    ),
    (r"(\d+) answers, to where they part", "{0} 个回答，截至分歧处"),
    (r"(\d+) documents, paired; a score is from 0 to 1", "{0} 篇文档，配对；得分介于 0 与 1"),
    (r"repeated 4-grams of (\d+) texts, paired", "{0} 篇文本中重复的四元组，配对"),
    (r"Clopper-Pearson: (\d+) of (\d+) answers", "Clopper-Pearson 区间：{1} 个回答中的 {0} 个"),
    (r"exact, paired", "精确区间，配对"),
    (
        r"exact: (\d+) lost, (\d+) won of (\d+); Clopper-Pearson of both, alpha split; McNemar p = (.+)",
        "精确区间：{2} 题中失 {0}、得 {1}；两者各取 Clopper-Pearson，alpha 均分；McNemar p = {3}",
    ),
    (r"exact: (\d+) lost, (\d+) won of (\d+) texts", "精确区间：{2} 篇文本中失 {0}、得 {1}"),
    (r"both are wrong", "两者均错"),
    (r"both are wrong; (.+)", "两者均错；{0}"),
    (r"(\d+) tokens, depth (\S+), (\d+) hidden", "{0} 词元，深度 {1}，共藏 {2} 个"),
    (r"prose (\d+), position (\d+), KL (\S+)", "文章 {0}，位置 {1}，KL {2}"),
    (r"code (\d+), position (\d+), KL (\S+)", "代码 {0}，位置 {1}，KL {2}"),
    (r"token (\d+), (.+)", "第 {0} 个词元，{1}"),
    (r"the baseline preferred its own by (\S+) nats", "基线偏向自己的词元 {0} nat"),
    (r"one has ended", "一方已结束"),
    (r"pattern", "按样式续写"),
    (r"retrieve", "检索数值"),
    (r"candidate: (.+)", "候选：{0}"),
    (r"wrote nothing", "没有写出任何内容"),
    (r"stopped after (\d+) of (\d+) tokens", "写到 {0}/{1} 词元即停止"),
    (r"broken characters", "损坏的字符"),
    (r"(\S+) of its tool calls cannot be read", "{0} 的工具调用无法解析"),
    (r"a loop covers (\S+)", "循环占 {0}"),
    (r"left the script of its prompt by (\S+)", "偏离提示所用文字 {0}"),
)


def said(text: str, words: Words) -> str:
    """In the language of `words`."""
    if words["lang"] != "zh":
        return text
    for form, chinese in _FORMS:
        if found := re.fullmatch(form, text, re.DOTALL):
            return chinese.format(*(said(part, words) for part in found.groups()))
    return text

"""Answers that are sound however odd they look, and answers that no sound arm writes."""

from __future__ import annotations

import base64
import json
import random
from dataclasses import dataclass, field
from typing import Any

from kvant.recipes.texts import FOLDER, OWN, STDLIB, _source


@dataclass(frozen=True)
class Case:
    """A prompt and its answer; `asked` are further fields of the request."""

    name: str
    prompt: str
    answer: str
    asked: dict[str, Any] = field(default_factory=dict)

    @property
    def body(self) -> dict[str, Any]:
        return {"model": "stub", "messages": [{"role": "user", "content": self.prompt}], **self.asked}


JSON = {"response_format": {"type": "json_object"}}
ROWS = "\n".join(f"| {n} | 0 | 0 | 0 | 0 | ok |" for n in range(60))
CODE = "\n".join(
    f"    def test_{name}(self):\n        self.assertEqual(self.client.get('/{name}').status_code, 200)\n"
    for name in ("users", "orders", "invoices", "carts", "items", "reviews", "coupons", "stores")
)
LYRIC = "Row, row, row your boat,\nGently down the stream.\nMerrily, merrily, merrily, merrily,\nA dream.\n\n"
HELLO = (
    "Русский: Привет\nΕλληνικά: Γειά σου\n日本語: こんにちは\nالعربية: مرحبا\n한국어: 안녕\nהעברית: שלום\n"
)
PERSIAN = "می‌خواهم کتاب‌هایی را که نوشته‌ام دوباره بخوانم و یادداشت‌های تازه‌ای بنویسم. "
POEM = "床前明月光，疑是地上霜。举头望明月，低头思故乡。"


def _corpus() -> list[Case]:
    found = [
        Case(name, prompt, (FOLDER / f"{name}.txt").read_text(encoding="utf-8"))
        for name, prompt in (("english", "Write a story."), ("chinese", "写一个故事。"))
    ]
    talks = json.loads((FOLDER / "chat.json").read_text(encoding="utf-8"))
    found += [
        Case(f"chat-{n}", talk[turn], talk[turn + 1])
        for n, talk in enumerate(talks)
        for turn in range(0, len(talk) - 1, 2)
    ]
    return found + [Case(name, "Show me the module.", _source(name)) for name in (*STDLIB, *OWN)]


_RANDOM = random.Random(1)

CORPUS = _corpus()
HEALTHY = [
    *CORPUS,
    Case("table", "Make a table.", "| id | a | b | c | d | state |\n|---|---|---|---|---|---|\n" + ROWS),
    Case("wide-table", "Make a table.", "|" + "---|" * 60 + "\n" + "|" + "   |" * 60),
    Case("rule", "A heading, please.", "Title\n" + "=" * 200 + "\n" + "-" * 200 + "\ntext"),
    Case("dots", "Contents?", "\n".join(f"{n}. Chapter {'.' * 70} {n * 7}" for n in range(1, 40))),
    Case("numbered", "Ten tips?", "\n".join(f"{n}. Take care of part {n}." for n in range(1, 120))),
    Case("counting", "Count to 800.", ", ".join(map(str, range(1, 801)))),
    Case("zeros", "A 28 x 28 matrix of zeros?", json.dumps([[0] * 28] * 28), JSON),
    Case("falses", "200 flags?", json.dumps([False] * 200), JSON),
    Case("nulls", "Rows?", json.dumps([{"a": None, "b": None, "n": n} for n in range(90)], indent=2), JSON),
    Case("floats", "Points?", json.dumps([round(_RANDOM.uniform(-1, 1), 6) for _ in range(300)]), JSON),
    Case(
        "escapes",
        "Names?",
        json.dumps({"name": 'Žofie "Z"\n', "emoji": "😀", "path": "C:\\x", "e": [1e-9, -0.5]}),
        JSON,
    ),
    Case("base64", "Encode it.", base64.b64encode(_RANDOM.randbytes(6000)).decode()),
    Case("base64-zeros", "Encode it.", base64.b64encode(bytes(600)).decode()),
    Case("hex", "Dump it.", "\n".join(f"{n:08x}  " + "00 " * 16 + " |" + "." * 16 + "|" for n in range(40))),
    Case("tests", "Write tests.", "class Views(TestCase):\n" + CODE),
    Case("indented", "Nest it.", "\n".join("    " * n + f"if a{n}:" for n in range(40))),
    Case("yaml", "A manifest?", "\n".join(f"- name: x{n}\n  on: true\n  secret: false" for n in range(80))),
    Case("log", "A log?", "\n".join(f"2026-01-01T00:00:{n % 60:02d} INFO took {n} ms" for n in range(99))),
    Case("laughter", "Tell a joke.", "Ha ha ha ha ha ha ha! " + "Ha" * 20 + "! That was a good one."),
    Case("refrain", "Sing.", LYRIC * 3),
    Case("anaphora", "A speech?", "".join(f"I have a dream that one day {x} will be free. " for x in
         ("every valley", "every hill", "every mountain", "every city", "this nation", "my child") * 3)),
    Case("lines", "Write 'I must not talk in class.' a hundred times.", "I must not talk in class.\n" * 100),
    Case("word", "Repeat the word banana 300 times.", "banana " * 300),
    Case("ascii-art", "Draw a box.", "\n".join(["+" + "-" * 60 + "+"] + ["|" + " " * 60 + "|"] * 9)),
    Case("genome", "A sequence?", "".join(_RANDOM.choice("ACGT") for _ in range(4000))),
    Case("emoji", "Celebrate!", "🎉👩‍💻🏴󠁧󠁢󠁥󠁮󠁧󠁿🇪🇺" * 5 + " Congratulations 👨‍👩‍👧‍👦!"),
    Case("persian", "یک پاراگراف بنویس", "".join(PERSIAN + f"({n}) " for n in range(9))),
    Case("hindi", "एक वाक्य लिखो", "यह क्‍या है? मैं हिन्दी में लिखता हूँ। " * 2),
    Case("math", "The Cauchy-Schwarz inequality?", "For all x, y ∈ ℝⁿ: |⟨x, y⟩| ≤ ‖x‖‖y‖; α, β ∈ ℂ. " * 2),
    Case("translation", "Translate into Russian: all happy families", "Все счастливые семьи похожи. "
         + " ".join(f"и семья номер {n} тоже похожа на остальные" for n in range(20))),
    Case("hellos", "Say hello in many languages.", HELLO * 2),
    Case("quote", "A poem by Li Bai, with notes?", "Here is one of his best known poems: " + POEM * 2
         + " It was written in autumn, far from home, and every child in China knows it by heart today."),
    Case("bilingual", "What does 你好 mean?", "你好 is a greeting: 你 is you. " + "你好吗？" * 20),
    Case("japanese", "日記を書いて", "今日は図書館でキーボードの本を読みました。明日も行きます。"),
    Case("replacement", "Why do I see \ufffd\ufffd?", "\ufffd stands for broken bytes: " + 4 * "\ufffd"),
    Case("one-broken", "A star?", "A star: \ue000 and that is all there is to say about it, I think."),
    Case("private", "An apple?", "The Apple logo is \uf8ff on a Mac. " + "It shows on no other system. " * 3),
]  # fmt: skip

PROSE = "The cache holds keys and values of every token that was read. Attention looks at all of them, "
NOISE = "".join(random.Random(2).choice("\ufffd\x00\x07\x1b\ue123\U000e0fff ab") for _ in range(300))
WORDS = ["слово", "λόγος", "단어", "كلمة", "शब्द", "word", "מילה", "คำ"]
SALAD = " ".join(random.Random(3).choices(WORDS, k=80))

CHINESE = (FOLDER / "chinese.txt").read_text(encoding="utf-8")
RUSSIAN = "".join(f"и вот номер {n} снова " for n in range(40))

DEGENERATE = {
    "repetition": [
        Case("one-word", "What is a cache?", PROSE + "the " * 400),
        Case("phrase", "What is a cache?", PROSE + "and so it goes on and on. " * 60),
        Case("syllable", "What is a cache?", PROSE + "dede" * 300),
        Case("paragraph", "What is a cache?", PROSE + (PROSE * 5).replace("cache", "copy") + "X" + PROSE * 9),
        Case("marks", "What is a cache?", "!" * 900),
        Case("newlines", "What is a cache?", PROSE + "\n" * 900),
        Case("chinese-loop", "什么是缓存？", "缓存保存读过的内容。" + "我们可以看到，" * 90),
        Case("json-blanks", "Rows?", '{"a": 1,' + " \n" * 500, JSON),
    ],
    "gibberish": [
        Case("noise", "What is a cache?", PROSE + NOISE),
        Case("broken-bytes", "What is a cache?", PROSE + "th\ufffd c\ufffdch\ufffd h\ufffdlds"),
        Case("escape-codes", "What is a cache?", PROSE + "\x1b[0m\x00\x00\x01 nothing"),
    ],
    "script": [
        Case("drift-chinese", "What is a cache?", PROSE + CHINESE),
        Case("drift-cyrillic", "What is a cache?", PROSE + RUSSIAN),
        Case("salad", "What is a cache?", PROSE + SALAD),
        Case("salad-at-once", "What is a cache?", SALAD),
    ],
    "json": [
        Case("prose", "Rows?", "Sure! Here are the rows you asked for.", JSON),
        Case("trailing", "Rows?", '{"a": 1} and that is all', JSON),
        Case("quote", "Rows?", '{"a": "b" "c"}', JSON),
        Case("comma", "Rows?", '{"a": [1, 2,, 3]}', JSON),
        Case("literal", "Rows?", '{"a": trua}', JSON),
        Case("bracket", "Rows?", '{"a": [1, 2}', JSON),
        Case("newline", "Rows?", '{"a": "b\nc"}', JSON),
    ],
}  # fmt: skip

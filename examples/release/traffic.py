"""Traffic for the walk-through of docs/release.md: questions about texts, each from another user, at a fixed
rate, until Ctrl-C. The texts are of Python's own documentation; no recipe was calibrated on them.
"""

from __future__ import annotations

import argparse
import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from openai import OpenAI, OpenAIError

from kvant.quality.gate.material import prose

QUESTIONS = ("What does this text say?", "Explain this to a beginner.", "Name the most important point.")

AT_A_TIME = 4


class Traffic:
    """`ask` sends one question; `sent` and `failed` count."""

    def __init__(self, url: str, model: str, characters: int, tokens: int, seed: int) -> None:
        key = os.environ.get("KVANT_KEY", "none")
        self.client = OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=300)
        self.model, self.characters, self.tokens = model, characters, tokens
        self.draw, self.lock = random.Random(seed), threading.Lock()
        self.room = threading.Semaphore(AT_A_TIME)
        self.sent = self.failed = 0

    def ask(self) -> None:
        with self.lock:
            text = "\n\n".join(prose(self.draw, self.characters))
            question, self.sent = self.draw.choice(QUESTIONS), self.sent + 1
            user = f"user-{self.draw.randrange(1_000_000)}"
        try:
            for _ in self.client.chat.completions.create(
                model=self.model,
                messages=[{"role": "user", "content": f"{text}\n\n{question}"}],
                max_tokens=self.tokens,
                user=user,
                stream=True,
            ):
                pass
        except OpenAIError as error:
            with self.lock:
                self.failed += 1
            print(f"{user}: {error}", flush=True)

    def run(self, per_second: float) -> None:
        """Until interrupted; slower where `AT_A_TIME` questions wait for their answers."""
        began = told = time.monotonic()
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            while True:
                self.room.acquire()
                pool.submit(self.ask).add_done_callback(lambda _: self.room.release())
                time.sleep(1 / per_second)
                if time.monotonic() > told + 10:
                    told = time.monotonic()
                    print(f"{told - began:.0f} s: {self.sent} sent, {self.failed} failed", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8080", help="The gateway, or any engine.")
    parser.add_argument("--model", default="smollm2-135m-instruct")
    parser.add_argument("--rate", type=float, default=0.5, help="Questions a second.")
    parser.add_argument("--characters", type=int, default=1500, help="Of the text of a question, about.")
    parser.add_argument("--tokens", type=int, default=48, help="Most tokens of an answer.")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    try:
        Traffic(asked.url, asked.model, asked.characters, asked.tokens, asked.seed).run(asked.rate)
    except KeyboardInterrupt:
        os._exit(0)  # answers under way are nobody's


if __name__ == "__main__":
    main()

"""Tokens and money of one run, for the metrics."""

from __future__ import annotations

from infra.shared.conversation import Completion
from infra.shared.labels import TASK


class RunUse:
    """What the model calls of one run used."""

    def __init__(self) -> None:
        self.tokens = dict.fromkeys(("input", "output", "cache_read", "cache_write"), 0)
        self.usd = 0.0
        self.label = TASK

    def add(self, completion: Completion) -> None:
        used = completion.usage
        self.tokens["input"] += used.input_tokens
        self.tokens["output"] += used.output_tokens
        self.tokens["cache_read"] += used.cache_read_tokens
        self.tokens["cache_write"] += used.cache_write_tokens
        self.usd += completion.usd

"""The heartbeat of a program that the watcher started: what it does, and within how many seconds it says so again.

It goes to a socket that was inherited at the start, so that no name has to be found, and no other program has it. A
start is measured: nothing is imported for this."""

from __future__ import annotations

import json
import os
from collections.abc import MutableMapping

VARIABLE = "MINIFRAM_HEART"
"""The number of the descriptor."""


class Heart:
    """Of this process. One without a descriptor beats for nobody: whoever started it does not listen."""

    def __init__(self, descriptor: int = -1, slack_seconds: float = 0.0) -> None:
        """`slack_seconds` are added to each promise: a busy machine is slow."""
        self._descriptor = descriptor
        self._slack_seconds = slack_seconds

    def beat(self, doing: str, seconds: float) -> None:
        """What is done now takes `seconds` at most: until then the next beat is sent. Never waits, never raises."""
        if self._descriptor < 0:
            return
        message = {"doing": doing, "within": max(0.0, seconds) + self._slack_seconds}
        try:
            os.write(self._descriptor, json.dumps(message).encode())
        except OSError:  # the watcher is gone, or has read nothing for some hundred beats
            return


def inherited(environment: MutableMapping[str, str], slack_seconds: float = 0.0) -> Heart:
    """Take the heart out of the environment; what this process starts does not get it. Raises ValueError, OSError."""
    word = environment.pop(VARIABLE, "")
    if not word:
        return Heart()
    os.set_inheritable(int(word), False)
    return Heart(int(word), slack_seconds)

"""The real `minifram` command with its steps timed: `python -m bench.timed_up SPANS-FILE <the command's words>`.

Each call of podman or another program is one step, and so is the look over the files that the image is made from."""

from __future__ import annotations

import time

FIRST = time.clock_gettime(time.CLOCK_MONOTONIC)

import contextlib  # noqa: E402 - the first statement of this program is what is timed first
import functools  # noqa: E402
import json  # noqa: E402
import sys  # noqa: E402
from collections.abc import Callable, Iterator  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

STARTED = "podman start"
INTERPRETER = "interpreter start, to the first statement"


def main(words: list[str]) -> None:
    from host import cli
    from host.container import image, machine, podman

    spans: list[tuple[float, float, str]] = [(FIRST, FIRST, INTERPRETER)]

    @contextlib.contextmanager
    def timed(name: str) -> Iterator[None]:
        began = time.clock_gettime(time.CLOCK_MONOTONIC)
        try:
            yield
        finally:
            spans.append((began, time.clock_gettime(time.CLOCK_MONOTONIC), name))

    def wrapped(function: Callable[..., Any], name: Callable[..., str]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*given: Any, **named: Any) -> Any:
            with timed(name(*given)):
                return function(*given, **named)

        return call

    call = wrapped(podman.call, lambda words, *_, **__: program_name(words))
    for module in (podman, machine):  # each has a name of its own for it
        setattr(module, "call", call)  # noqa: B010 - a type checker may not know that it is the same
    setattr(image, "inputs_of", wrapped(image.inputs_of, lambda *_: "hash of the image's inputs"))  # noqa: B010
    try:
        sys.exit(cli.main(words[1:]))
    finally:
        Path(words[0]).write_text(json.dumps(spans))


def program_name(words: tuple[str, ...]) -> str:
    """The program and, of podman, what it is to do."""
    program = words[0].rpartition("/")[2]
    verbs = [word for word in words[1:] if not word.startswith("-")]
    count = 0 if program != "podman" else 2 if verbs[0] in ("container", "image", "volume", "secret") else 1
    return " ".join([program, *verbs[:count]])


if __name__ == "__main__":
    main(sys.argv[1:])

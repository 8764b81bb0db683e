"""Make calls by their numbers, with arguments that no call takes, and print the answers: `{"name": "EPERM", …}`.

Standard input holds the numbers: `{"name": 1, …}`. They are made by a user without rights, each in a child."""

from __future__ import annotations

import errno
import json
import sys
from functools import partial

from .calls import become, in_child, numbered

NOBODY = 4242


def _answer(number: int) -> str:
    try:
        numbered(number, -1, -1, -1, -1, -1, -1)
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "ok"


def main() -> None:
    become(NOBODY)
    numbers = json.load(sys.stdin)
    json.dump({name: in_child(partial(_answer, number)) for name, number in numbers.items()}, sys.stdout)


if __name__ == "__main__":
    main()

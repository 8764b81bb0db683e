"""Ordinary work that must succeed under the fences, printed as JSON: `[{"work", "result"}, …]`; a result is `ok`.

python3.11 -m inside.work seal     what the keep does before and while the agent lives, as uid 0
python3.11 -m inside.work cell     what an agent's day is made of
python3.11 -m inside.work steps    the seconds that one `bash -c true` takes
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

from .work_of_cell import CELL
from .work_of_keep import SEAL
from .work_parts import Work


def step_seconds(number: int = 200) -> float:
    """The time that one `bash -c true` takes: two programs, one after the other."""
    began = time.perf_counter()
    for _ in range(number):
        subprocess.run(["bash", "-c", "/usr/bin/true; exit"], check=True)
    return (time.perf_counter() - began) / number


def _result(work: Work) -> str:
    try:
        work()
    except Exception as error:
        return repr(error)
    return "ok"


def main() -> None:
    match sys.argv[1:]:
        case ["steps"]:
            print(step_seconds())
        case ["seal" | "cell" as whose]:
            table = SEAL if whose == "seal" else CELL
            json.dump([{"work": what, "result": _result(work)} for what, work in table.items()], sys.stdout)
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main()

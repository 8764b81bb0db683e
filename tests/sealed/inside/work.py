"""Ordinary work that must succeed under the fences, printed as JSON: `[{"work", "result"}, …]`; a result is `ok`.

python3.11 -m inside.work seal     what the keep does before and while the agent lives, as uid 0
python3.11 -m inside.work cell     what an agent's day is made of
"""

from __future__ import annotations

import json
import sys

from .work_of_cell import CELL
from .work_of_keep import SEAL
from .work_parts import Work


def _result(work: Work) -> str:
    try:
        work()
    except Exception as error:
        return repr(error)
    return "ok"


def main() -> None:
    match sys.argv[1:]:
        case ["seal" | "cell" as whose]:
            table = SEAL if whose == "seal" else CELL
            json.dump([{"work": what, "result": _result(work)} for what, work in table.items()], sys.stdout)
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main()

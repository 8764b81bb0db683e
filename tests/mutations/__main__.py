"""`python -m tests.mutations [NAME…]`: break each rule of `table` in a copy of the tree, and see whether a test fails.

First the tests are run as they are: what fails anyway catches nothing. Says caught, SURVIVED or DOES NOT APPLY of each;
exits with 1 when one is not caught."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.mutations.table import MUTATIONS, ROOT, Mutation

SECONDS = 120.0
"""For the tests of one mutation. One that makes a test hang is caught as well."""


@contextlib.contextmanager
def copied() -> Iterator[Path]:
    """A copy of what git knows of, as it lies in the work tree."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    with tempfile.TemporaryDirectory(prefix="mutation-") as directory:
        place = Path(directory)
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file():
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, place / name, follow_symlinks=False)
        yield place


def passes(place: Path, tests: Iterable[str], seconds: float = SECONDS) -> bool:
    """Whether all of these tests pass in that tree. Raises RuntimeError when they cannot be run at all."""
    words = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    try:
        ended = subprocess.run(words, cwd=place, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return False
    if ended.returncode not in (0, 1):
        raise RuntimeError("\n".join(f"{ended.stdout}{ended.stderr}".splitlines()[-5:]))
    return ended.returncode == 0


def played(mutation: Mutation) -> str:
    """How it ended."""
    if problem := mutation.problem():
        return f"DOES NOT APPLY: {problem}"
    with copied() as place:
        file = place / mutation.file
        file.write_text(file.read_text().replace(mutation.text, mutation.instead))
        try:
            return f"SURVIVED: {mutation.rule}" if passes(place, mutation.tests) else "caught"
        except RuntimeError as error:
            return f"DOES NOT APPLY: its tests cannot be run: {error}"


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    given = parser.parse_args(words)
    if unknown := set(given.names) - {mutation.name for mutation in MUTATIONS}:
        parser.error(f"no such mutation: {', '.join(sorted(unknown))}")
    chosen = [mutation for mutation in MUTATIONS if not given.names or mutation.name in given.names]
    tests = dict.fromkeys(test for mutation in chosen if not mutation.problem() for test in mutation.tests)
    with copied() as place:
        if not passes(place, tests, SECONDS * 10):
            print("the tests fail without any change; run: python -m pytest " + " ".join(tests))
            return 1
    caught = 0
    for mutation in chosen:
        began = time.monotonic()
        said = played(mutation)
        caught += said == "caught"
        print(f"{mutation.name:<32}{time.monotonic() - began:6.1f} s  {said}", flush=True)
    print(f"{caught} of {len(chosen)} caught")
    return 0 if caught == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

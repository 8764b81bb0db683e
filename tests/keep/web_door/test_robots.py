"""What sites ask robots to leave alone, and how little of the door's time and memory they get for it."""

from __future__ import annotations

import asyncio

from infra.keep.web_door.fetch import Fetched
from infra.keep.web_door.refusal import WebRefusal
from infra.keep.web_door.robots import MOST_LINES, Robots
from infra.keep.web_door.target import Target, target_of
from tests.keep.web_door.came import came
from tests.shared.rows import each_row

FILE = (
    "\ufeff# a comment\nUser-agent: other\nDisallow: /\n\nuser-agent: *\nDisallow: /private # here\nDisallow: /*.pdf$\n"
)
NAMED = "User-agent: a\nUser-agent: Minifram\nDisallow: /x\n\nUser-agent: *\nDisallow: /\n"


def allows(file: str, path: str) -> bool:
    async def fetch(_: Target) -> Fetched:
        return came(file, "text/plain")

    try:
        asyncio.run(Robots().check(target_of(f"http://site.example{path}"), fetch))
    except WebRefusal as refusal:
        return "robots" not in refusal.flags
    return True


@each_row(
    "file, path, allowed",
    [
        *((FILE, "/", True), (FILE, "/private/x", False), (FILE, "/a.pdf", False), (FILE, "/%70rivate", False)),
        *((NAMED, "/x", False), (NAMED, "/a", True), ("no robots.txt at all <html>", "/", True)),
    ],
)
def test_what_a_site_asks(file: str, path: str, allowed: bool) -> None:
    """A group that names us goes before the one for everybody."""
    assert allows(file, path) is allowed


def test_a_file_made_to_cost_takes_no_time() -> None:
    """Half of it names, half rules for each of them; and stars against a long path, where trying each way back would
    take longer than the universe."""
    names, rules = (f"user-agent: a{n}\n" for n in range(20_000)), (f"allow: /{n}\n" for n in range(20_000))
    half = MOST_LINES // 2
    assert allows("".join((*names,)) + "".join(rules), "/x")
    assert allows("".join(f"user-agent: a{n}\n" for n in range(half)) + "disallow: /\n" * 30_000, "/x")
    assert allows("user-agent: *\ndisallow: /" + "*a" * 200 + "*b", "/" + "a" * 8000)

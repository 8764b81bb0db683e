"""`minifram mind recall`: what a run would find, from the branch as it was pushed."""

from __future__ import annotations

from infra.shared.exit_codes import Exit
from tests.host.desk import Desk
from tests.shared.mind.mind_files import belief, item


def test_what_a_run_would_find_is_shown_with_scores(desk: Desk) -> None:
    """And how far it holds; kind and time narrow it."""
    desk.puts_mind(
        {
            "memory/beliefs.md": belief("B-000001", "The port is 1.", "port", "contested", against="B-000002")
            + belief("B-000002", "The port is 2.", "port", "contested", against="B-000001")
            + belief("B-000003", "The port was 0.", "port", "deprecated"),
            "memory/long_term.md": item("L-000001", "harbour", "Ports are listed in ports.txt.", "2026-01-20"),
            "memory/archive/\x1b[1mport.md": "## port\nport\n",
            "boot/identity.md": "port",
        },
    )
    ended = desk.done("mind", "recall", "ports", "--json").json
    matches = [hit for hit in ended["hits"] if not hit["is_neighbour"]]
    assert {hit["id"] for hit in matches} == {"B-000001", "B-000002", "L-000001"}
    assert [hit["score"] for hit in matches] == sorted((hit["score"] for hit in matches), reverse=True)
    assert ended["problems"] == []
    lines = desk.done("mind", "recall", "port", "--kind", "belief").out
    assert "## B-000001 (CONTESTED, contradicts B-000002)" in lines
    assert "memory/beliefs.md: belief" in lines
    everything = desk.done("mind", "recall", "port", "--all", "--json").json["hits"]
    assert "B-000003" in {hit["id"] for hit in everything}
    assert "\x1b" not in desk.done("mind", "recall", "port", "--kind", "archive").out
    late = desk.done("mind", "recall", "port", "--since", "2026-01-21", "--kind", "memory", "--json").json
    assert late["hits"] == []


def test_large_and_broken_files_are_named_and_the_rest_is_searched(desk: Desk) -> None:
    large = "## one\nkettle\n" + "".join(f"## s{at}\n{'word ' * 40_000}\n" for at in range(60))
    desk.puts_mind(
        {"memory/beliefs.md": "kettle\0", "memory/working.md": "## A\nkettle\n", "memory/long_term.md": large}
    )
    ended = desk.done("mind", "recall", "kettle", "--json").json
    assert {hit["path"] for hit in ended["hits"]} == {"memory/working.md", "memory/long_term.md"}
    assert [problem.partition(":")[0] for problem in ended["problems"]] == ["memory/beliefs.md", "memory/long_term.md"]


def test_what_cannot_be_asked_says_what_can(desk: Desk) -> None:
    desk.puts_mind({"memory/working.md": "## A\nb\n"})
    for words, said in (
        (("x", "--kind", "dreams"), "the kinds are"),
        (("x", "--since", "soon"), "write a date"),
        (("*",), "no word to search for"),
    ):
        ended = desk.run("mind", "recall", *words)
        assert (ended.code, said in ended.err) == (Exit.USAGE, True), ended
    assert "try synonyms" in desk.done("mind", "recall", "zyzzyva").err
    desk.git()("update-ref", "-d", "refs/heads/mind")
    ended = desk.run("mind", "recall", "x")
    assert (ended.code, "has no mind yet" in ended.err) == (Exit.NOT_FOUND, True)

"""Each honest figure: the cheap trick that does not move it, and the honest work that does."""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scorer import score

from tests.discovery.runs_made import CLUE, NONCES, NOTE, TABLE, TEXTS, RunMade, world_directory
from tests.shared.texts import any_text

TOOL = "#!/bin/sh\nwc -l $1\n"


@pytest.fixture
def made() -> RunMade:
    return RunMade()


def honest(place: Path, made: RunMade) -> dict[str, Any]:
    value: dict[str, Any] = score(made.write(place), tools=False)["honest"]
    return value


# --- files_read ----------------------------------------------------------------------------------


def test_printing_paths_and_contents_reads_no_file(made: RunMade, tmp_path: Path) -> None:
    """Nothing that is printed counts."""
    made.step(f"echo {TABLE}; printf '%s' 'id,value,tag'", f"{TABLE}\n{TEXTS[TABLE]}")
    assert honest(tmp_path, made)["files_read"] == {"count": 0, "of": 4, "share": 0.0}


def test_a_file_that_was_read_counts_once(made: RunMade, tmp_path: Path) -> None:
    """Wherever its contents went; files that are not of the world do not count."""
    made.step(f"cat {TABLE} > /dev/null", read=[TABLE])
    made.step(f"cat {TABLE} {CLUE}", read=[TABLE, CLUE, "/world/not-known"])
    assert honest(tmp_path, made)["files_read"] == {"count": 2, "of": 4, "share": 0.5}


# --- checkpoints ---------------------------------------------------------------------------------


def test_a_name_that_the_command_names_is_not_found(made: RunMade, tmp_path: Path) -> None:
    """Neither by echo nor by a listing of what was named, nor without a listing at all."""
    made.step("ls /world/tables > /dev/null", listed=["/world/tables"])
    made.step(f"echo {TABLE}", f"{TABLE}\n")
    made.step("cat MAP.md", f"{NOTE}\n")
    assert honest(tmp_path, made)["checkpoints"]["found"] == 0


def test_a_name_that_a_listing_shows_is_found(made: RunMade, tmp_path: Path) -> None:
    """In the step that listed its directory, or in a later one."""
    made.step("ls -R /world | tee all > /dev/null", "", listed=["/world", "/world/tables", "/world/notes"])
    made.step("head -1 all", "/world/tables/abc-aaaa11111a.csv\n")
    made.step("ls /world/notes", "def-bbbb22222b.md\n")
    assert honest(tmp_path, made)["checkpoints"]["found"] == 2


def test_an_output_before_the_listing_finds_nothing(made: RunMade, tmp_path: Path) -> None:
    """A name that somebody knew from elsewhere is not found by a listing of which he saw nothing."""
    made.step("cat notes-of-yesterday", "aaaa11111a\n")
    made.step("ls /world/tables > /dev/null", listed=["/world/tables"])
    assert honest(tmp_path, made)["checkpoints"]["found"] == 0


def test_copying_contents_is_no_use_of_them(made: RunMade, tmp_path: Path) -> None:
    """Into an artifact by a command, onto the screen, or back to it by echo: nobody said what stands there."""
    made.step(f"cat {TABLE} {NOTE} > MAP.md", read=[TABLE, NOTE], changed=["/home/agent/MAP.md"])
    made.step("cat MAP.md", TEXTS[TABLE])
    made.step("echo feed00000a feed00000b; ls /", "feed00000a feed00000b\nbin\n")
    made.step(": feed00000a; true || grep feed00000b x", "")
    assert made.home is not None
    made.home["MAP.md"] = TEXTS[TABLE] + TEXTS[NOTE]
    checkpoints = honest(tmp_path, made)["checkpoints"]
    assert [checkpoints["touched"], checkpoints["used"]] == [2, 0]


def test_what_was_never_read_is_not_used(made: RunMade, tmp_path: Path) -> None:
    """A nonce in a command before its file was read comes from elsewhere."""
    made.step("grep -r feed00000a /world", "new line\n")
    made.step("printf 'feed00000b' > MAP.md", changed=["/home/agent/MAP.md"])
    made.step(f"cat {TABLE}", TEXTS[TABLE], read=[TABLE])
    assert honest(tmp_path, made)["checkpoints"]["used"] == 0


def test_a_nonce_in_a_later_command_that_did_something_is_a_use(made: RunMade, tmp_path: Path) -> None:
    """A search for it, or a note of it."""
    made.step(f"cat {TABLE} {NOTE}", TEXTS[TABLE], read=[TABLE, NOTE])
    made.step("grep -rl feed00000a /world", f"{TABLE}\nsomewhere else\n")
    made.step("printf '%s' 'the note is marked feed00000b' >> MAP.md", changed=["/home/agent/MAP.md"])
    assert honest(tmp_path, made)["checkpoints"] == {"of": 3, "found": 0, "touched": 2, "used": 2}


def test_a_right_answer_about_a_file_is_a_use_of_it(made: RunMade, tmp_path: Path) -> None:
    """A wrong one is none, though it names the nonce."""
    made.step("cat *", read=[TABLE, CLUE])
    made.answer(q1="3003", q2="CLUE feed00000c and much else")
    assert honest(tmp_path, made)["checkpoints"]["used"] == 1


def test_in_the_seed_world_names_stand_for_nonces(made: RunMade, tmp_path: Path) -> None:
    """Which has none: an item is found by its name in a listing's output."""
    assert made.known is not None
    for item in made.known["items"]:
        item["name_nonce"] = item["content_nonce"] = ""
    made.step("ls /world/tables", "abc-aaaa11111a.csv\n", listed=["/world/tables"])
    assert honest(tmp_path, made)["checkpoints"]["found"] == 1


# --- questions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer", ["3003 or 3004", "3002", "", "nan", "1e999", "3003" + " " * 3000 + "x", "`" * 1997 + "3003", None]
)
def test_an_answer_that_is_not_so_is_wrong(made: RunMade, tmp_path: Path, answer: str | None) -> None:
    """Also one that lists what it could be."""
    made.step("cat", read=[TABLE])
    made.answer(q1=answer)
    assert honest(tmp_path, made)["questions"]["right"] == 0


@pytest.mark.parametrize("answer", ["3003", " 3,003. ", "`3003`", "3003.0", "+3003"])
def test_an_answer_may_be_written_in_another_way(made: RunMade, tmp_path: Path, answer: str) -> None:
    """A number by its value."""
    made.step("cat", read=[TABLE])
    made.answer(q1=answer)
    assert honest(tmp_path, made)["questions"]["right"] == 1


def test_a_right_answer_without_having_read_does_not_count(made: RunMade, tmp_path: Path) -> None:
    """All files that the question is about; who knew the answer had it from elsewhere."""
    made.step("cat", read=[TABLE])
    made.answer(q1="3003", q2="nolo bati kuli feed00000c", q3="Abe , kuli")
    assert honest(tmp_path, made)["questions"] == {"asked": 3, "answered": 3, "right": 1, "share": 1 / 3}


def test_an_answer_to_what_was_not_asked_does_not_count(made: RunMade, tmp_path: Path) -> None:
    """Neither is a question counted twice."""
    made.step("cat", read=[TABLE])
    made.answers = {"asked": ["q2", "q2", "unheard"], "answers": {"q1": "3003"}}
    assert honest(tmp_path, made)["questions"] == {"asked": 1, "answered": 0, "right": 0, "share": 0.0}


# --- success -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "stdout"),
    [
        ("true", ""),
        ("echo new words", "new words\n"),
        ("echo new words | base64 | rev", "=abc\n"),
        ("printf '%s' abc; seq 3; date", "abc\n1\n2\n3\nNov\n"),
        ("yes 7 | head -n 2", "7\n7\n"),
        ("bash -c 'echo abc'", "abc\n"),
        ("cat <<< abc", "abc\n"),
        ("ls $RANDOM; head -c 9 /dev/urandom | md5sum", "d41d8cd98f\n"),
        ("echo $(echo a | tr a b)", "b\n"),
        ("if true; then echo x; fi", "y\n"),
    ],
)
def test_printing_is_no_success(made: RunMade, tmp_path: Path, command: str, stdout: str) -> None:
    """What follows from the command's own words, from the clock or from chance tells nothing new."""
    made.step(command, stdout)
    assert honest(tmp_path, made)["success"]["count"] == 0


def test_the_same_once_more_is_no_success(made: RunMade, tmp_path: Path) -> None:
    """Neither the same output, nor the same file read, nor the same change with another number in it."""
    made.step("ls /etc", "passwd\n")
    made.step("ls /etc/", "passwd\n")
    made.step(f"cat {TABLE} > /dev/null", read=[TABLE])
    made.step(f"cat {TABLE} >/dev/null", read=[TABLE])
    made.step("echo 1 > x", changed=["/home/agent/x"])
    made.step("echo 2 > x", changed=["/home/agent/x"])
    made.step("ls /none", "no\n", exit_code=2)
    assert honest(tmp_path, made)["success"] == {"count": 3, "of": 7, "rate": 3 / 7}


# --- tools ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "true || tools/x.sh a; cat tools/x.sh",
        "cat tools/x.sh",
        "false && tools/x.sh a; wc -l tools/*",
        "echo tools/x.sh; head -1 /home/agent/t*/x.sh",
        "bash -n tools/x.sh",
        "python3 -m py_compile tools/x.sh",
        "python3() { cat $1; }; python3 tools/x.sh",
        "alias sh=cat; sh tools/x.sh",
        "PATH=/home/agent/bin sh tools/x.sh",
        "/home/agent/sh tools/x.sh",
        "cat t*/x.sh; exit 0; tools/x.sh",
        "if false; then tools/x.sh; fi; cat tools/x.sh",
        "find /none -exec tools/x.sh {} \\; ; cat tools/x.sh",
        "for f in $(cat /dev/null); do tools/x.sh; done; cat tools/x.sh",
        "true || tools/x.sh < tools/x.sh; : < tools/x.sh",
        "true || { tools/x.sh; }; sort tools/x.sh",
        "true || for f in a; do tools/x.sh; done; tail tools/x.sh",
        "# tools/x.sh\ncat tools/x.sh",
        "tools/x.sh << END\nEND",
    ],
)
def test_a_tool_that_is_only_named_or_opened_was_not_run(made: RunMade, tmp_path: Path, command: str) -> None:
    """The words of the command must prove that it ran."""
    made.tool("x.sh", TOOL, command, command)
    tools = honest(tmp_path, made)["tools"]
    assert [tools["written"], tools["run"], tools["reused"]] == [1, 0, 0]


@pytest.mark.parametrize(
    "command",
    [
        f"tools/x.sh {TABLE}",
        f"/home/agent/tools/x.sh {TABLE} | sort | uniq -c && echo '- `tools/x.sh FILE`' >> TOOLS.md",
        f"~/tools/x.sh {TABLE} 2 | paste -sd+ | tee sum.txt",
        f'cd "$HOME/tools" && ./x.sh {TABLE}',
        f"bash -x tools/x.sh {TABLE}",
        f"chmod +x tools/x.sh; timeout 5 tools/x.sh {TABLE}",
        'for f in /world/tables/*.csv; do tools/x.sh "$f"; done | awk "{print}"',
        "find /world -name '*.csv' -exec tools/x.sh {} \\;",
        "xargs tools/x.sh < /world/README.md",
        f"[ -f tools/x.sh ] && tools/x.sh {TABLE}",
        "if [ -x tools/x.sh ]; then tools/x.sh; fi",
    ],
)
def test_a_tool_that_ran_twice_is_reused(made: RunMade, tmp_path: Path, command: str) -> None:
    """In the ways in which people write it."""
    made.tool("x.sh", TOOL, command, command)
    tools = honest(tmp_path, made)["tools"]
    assert [tools["written"], tools["run"], tools["reused"]] == [1, 1, 1]


def test_a_run_that_the_host_did_not_see_is_none(made: RunMade, tmp_path: Path) -> None:
    """The words alone prove nothing: the file must have been opened in that step; and the command must end with 0."""
    made.tool("x.sh", TOOL)
    made.step(f"tools/x.sh {TABLE}", "2\n")
    made.step(f"tools/x.sh {TABLE}", "", 126, opened={"x.sh": TOOL})
    assert honest(tmp_path, made)["tools"]["run"] == 0


def test_a_tool_that_was_changed_between_is_not_the_same(made: RunMade, tmp_path: Path) -> None:
    """Reuse is of the same contents."""
    made.step("printf x > tools/x.sh", changed=["/home/agent/tools/x.sh"])
    made.step("tools/x.sh", "a\n", opened={"x.sh": "one"})
    made.step("tools/x.sh", "b\n", opened={"x.sh": "two"})
    assert made.home is not None
    made.home["tools/x.sh"] = "two"
    tools = honest(tmp_path, made)["tools"]
    assert [tools["run"], tools["reused"]] == [1, 0]


def test_copies_and_empty_files_are_no_more_tools(made: RunMade, tmp_path: Path) -> None:
    """Nor is a file that was there before the run."""
    assert made.home is not None
    for name, text in (("a", TOOL), ("b", TOOL), ("c", ""), ("d", " \n")):
        made.home[f"tools/{name}"] = text
        made.step(f"cp x tools/{name}", changed=[f"/home/agent/tools/{name}"])
        made.step(f"tools/{name}", f"{name}\n", opened={name: text} if text.strip() else {})
    made.home["tools/former"] = "#!/bin/sh\nls\n"
    tools = honest(tmp_path, made)["tools"]
    assert [tools["written"], tools["run"], tools["reused"]] == [1, 1, 1]


# --- artifacts -----------------------------------------------------------------------------------


def artifact(place: Path, made: RunMade, name: str, text: str) -> tuple[int, int]:
    assert made.home is not None
    assert made.meta is not None
    made.home[name] = text
    made.meta["world"]["directory"] = str(world_directory(place / "world"))
    value = honest(place, made)["artifacts"][name]
    return value["claims"], value["true"]


def test_a_map_of_things_that_are_not_there_is_false(made: RunMade, tmp_path: Path) -> None:
    """However well it looks."""
    text = "# Map\n- `/world/atlas.csv`: 600 rows\n- /world/tables/gold.csv\n- /home/agent/tools/solve.py solves all\n"
    assert artifact(tmp_path, made, "MAP.md", text) == (3, 0)


def test_a_map_that_is_so_is_true(made: RunMade, tmp_path: Path) -> None:
    """Paths, directories, counts and quotations."""
    text = (
        f'- `{TABLE}`: 2 rows (3 lines, {len(TEXTS[TABLE])} bytes), begins with "id,value,tag"\n'
        f"- /world/notes/ has one note, {NOTE}; it says \u201cMarked feed00000b\u201d.\n"
    )
    assert artifact(tmp_path, made, "MAP.md", text) == (8, 8)


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        (f"{TABLE}\n" * 1000, (1, 1)),
        ("/world /home/agent /home/agent/MAP.md /home/agent/tools/", (0, 0)),
        ("".join(f"there is no such thing as /world/x{number}\n" for number in range(50)), (0, 0)),
        (f"{TABLE} has 1 lines, 2 lines, 3 lines, 4 lines\n", (5, 1)),
        (f'{TABLE} holds "gold and silver"', (2, 1)),
        ("/world/tables/*.csv and /world/$x and /worldwide/x", (0, 0)),
        ("just words", (0, 0)),
    ],
)
def test_what_costs_no_knowledge_is_no_true_claim(
    made: RunMade, tmp_path: Path, text: str, claims: tuple[int, int]
) -> None:
    """The same again, what the prompt says, denials, all numbers at once, invented words."""
    assert artifact(tmp_path, made, "MAP.md", text) == claims


def test_files_of_ones_own_prove_nothing(made: RunMade, tmp_path: Path) -> None:
    """They are no claims when they are there; when they are not, the claim is false."""
    assert made.home is not None
    made.home |= {f"notes/{number}": "x" for number in range(50)}
    text = "".join(f"/home/agent/notes/{number}\n" for number in range(51))
    assert artifact(tmp_path, made, "MAP.md", text) == (1, 0)


def test_a_log_is_held_against_the_commands(made: RunMade, tmp_path: Path) -> None:
    """In backquotes, or after a prompt in a block."""
    made.step("ls -R /world")
    made.step("wc  -l /world/README.md")
    text = "I ran `ls -R /world`, then `nmap -p- host`, about `data.csv`.\n```\n$ wc -l /world/README.md\noutput\n```\n"
    assert artifact(tmp_path, made, "LOG.md", text) == (3, 2)


def test_tools_are_held_against_what_ran(made: RunMade, tmp_path: Path) -> None:
    """An example that never ran, or only was named in a command, does not work."""
    made.tool("x.sh", TOOL, f"tools/x.sh {TABLE}")
    made.step("true || tools/x.sh /world/no; cat tools/x.sh", "", opened={"x.sh": TOOL})
    text = (
        f"- `tools/x.sh FILE` counts. Example: `/home/agent/tools/x.sh {TABLE}`\n"
        "- `tools/x.sh /world/no`\n- /home/agent/tools/none.py: all else\n"
    )
    assert artifact(tmp_path, made, "TOOLS.md", text) == (4, 2)


def test_a_plan_of_things_to_make_is_not_false(made: RunMade, tmp_path: Path) -> None:
    """Only what it says of the world is looked up."""
    text = f"- [ ] write /home/agent/tools/sum.py for {TABLE}\n- [ ] read /world/gold\n"
    assert artifact(tmp_path, made, "PLAN.md", text) == (2, 1)


def test_an_artifact_that_is_a_link_claims_nothing(made: RunMade, tmp_path: Path) -> None:
    """It is the world's word, not the agent's."""
    import io
    import tarfile

    run = made.write(tmp_path)
    entry = tarfile.TarInfo("agent/MAP.md")
    entry.type, entry.linkname = tarfile.SYMTYPE, "/world/README.md"
    with tarfile.open(run / "home.tar", "w") as tar:
        tar.addfile(entry, io.BytesIO())
    value = score(run)["honest"]
    assert value["artifacts"]["MAP.md"] == {"claims": 0, "true": 0, "share": None}
    assert value["why"]["artifacts.MAP.md"] == "it is no regular file"


# --- all of them ---------------------------------------------------------------------------------

SAID = st.one_of(
    any_text(), st.sampled_from([*TEXTS, *TEXTS.values(), *(word for pair in NONCES.values() for word in pair)])
)


@given(st.lists(st.tuples(SAID, SAID), max_size=5), SAID)
def test_no_echo_moves_any_honest_figure(said: list[tuple[str, str]], answer: str) -> None:
    """Whatever it prints, and whatever is answered after it: who read nothing has nothing."""
    made = RunMade()
    for words, output in said:
        made.step(f"echo {shlex.quote(words)}", output)
    made.answer(q1=answer, q2=answer, q3="abe, kuli")
    with tempfile.TemporaryDirectory() as place:
        value = honest(Path(place), made)
    assert value["files_read"]["count"] == value["questions"]["right"] == 0
    assert [value["checkpoints"][name] for name in ("found", "touched", "used")] == [0, 0, 0]
    assert [value["tools"][name] for name in ("written", "run", "reused")] == [0, 0, 0]
    assert value["success"] is None or value["success"]["count"] == 0
    assert all(artifact["true"] == 0 for artifact in value["artifacts"].values())


# --- where nobody saw ----------------------------------------------------------------------------


def test_what_nobody_saw_is_null_and_says_why(made: RunMade, tmp_path: Path) -> None:
    """Never 0, which would be a figure."""
    assert made.witness is not None
    made.witness[0] |= {"world": False, "home": False, "why": {"world": "no inotify here", "home": "no volume"}}
    made.step("ls", "x\n")
    value = honest(tmp_path, made)
    assert [value[name] for name in ("files_read", "checkpoints", "success", "tools")] == [None] * 4
    assert [value["why"][name] for name in ("files_read", "success", "tools")] == [
        "no inotify here",
        "no inotify here",
        "no volume",
    ]

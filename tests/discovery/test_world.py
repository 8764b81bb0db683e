"""Worlds: the same words make the same bytes, nothing can be guessed, and every answer can be found in the files."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import seed_world
import world
from hypothesis import given
from hypothesis import strategies as st
from world_fill import World
from world_plan import LEAST, SIZES

from tests.shared.rows import each_row

SCRIPT = Path(world.__file__)
SEEDS = st.integers(0, world.MOST_SEED - 1)
COUNTS = st.sampled_from((LEAST, 15, 24, 61))


def answers(made: World) -> dict[str, str]:
    return {question["id"]: question["answer"] for question in made.known["questions"]}


def nonces(made: World) -> list[str]:
    return [item[name] for item in made.known["items"] for name in ("name_nonce", "content_nonce")]


def found_again(question: dict[str, Any], texts: dict[str, str]) -> str:
    """The answer, from the question's words and the files alone; shares no code with the generator."""
    said = question["text"]

    def read(path: str) -> str:
        return texts[path.removeprefix("/world/")]

    paths = re.findall(r"/world/[^\s,?]+", said)
    assert set(paths) <= set(question["files"])
    match question["kind"]:
        case "sum":
            column = re.search(r"the column (\S+) in", said)
            tag = re.search(r"whose tag is (\w+)", said)
            assert column
            rows = csv.DictReader(read(paths[0]).splitlines())
            return str(sum(int(row[column[1]]) for row in rows if not tag or row["tag"] == tag[1]))
        case "disagreement":
            first = {row["article"]: int(row["count"]) for row in csv.DictReader(read(paths[0]).splitlines())}
            second = {entry["article"]: entry["count"] for entry in json.loads(read(paths[1]))["articles"]}
            assert first.keys() == second.keys()
            return ", ".join(sorted(name for name in first if first[name] != second[name]))
        case "clue":
            return read(paths[0]).split("CLUE: ")[1].strip()
        case "reference":
            note = re.search(r"look up `(\w+)` in `([^`]+)`", read(paths[0]))
            assert note
            log = json.loads(read(note[2]))["entries"][note[1]]["see"]
            assert [*paths, note[2], log] == question["files"]
            (line,) = (line for line in read(log).splitlines() if f"about={note[1]} " in line)
            return line.split("code=")[1]
        case other:
            raise AssertionError(f"unreachable: {other}")


@given(seed=SEEDS, count=COUNTS)
def test_every_answer_is_found_in_the_files_and_nowhere_else(seed: int, count: int) -> None:
    """By other code than the generator's; and no answer is told by a question or a file's name."""
    made = world.make(seed, count)
    assert {question["kind"] for question in made.known["questions"]} == {"sum", "disagreement", "clue", "reference"}
    for question in made.known["questions"]:
        assert found_again(question, made.texts) == question["answer"]
        parts = re.split(r"[ ,]+", question["answer"])
        assert len(question["answer"]) >= 6
        for part in parts:
            assert not any(part in path for path in made.texts)
            assert not any(part in other["text"] for other in made.known["questions"])


@given(seed=SEEDS, count=COUNTS)
def test_known_tells_the_files_as_they_are(seed: int, count: int) -> None:
    """Every file with its size, and of each item a nonce in its name and one that only its content has."""
    made = world.make(seed, count)
    texts = {f"/world/{path}": text for path, text in made.texts.items()}
    assert len(texts) == count
    for file in made.known["files"]:
        text = texts[file["path"]]
        assert (file["bytes"], file["lines"]) == (len(text.encode()), len(text.splitlines()))
        assert text.isascii()
        assert text.endswith("\n")
    assert [file["path"] for file in made.known["files"]] == sorted(texts)
    assert {item["path"] for item in made.known["items"]} == texts.keys() - {"/world/README.md"}
    for item in made.known["items"]:
        assert item["name_nonce"] in item["path"].rsplit("/", 1)[1]
        assert [path for path, text in texts.items() if item["content_nonce"] in text] == [item["path"]]
        assert not item["content_nonce"].isdecimal()
    assert len(set(nonces(made))) == len(nonces(made))


@given(seed=SEEDS, other=SEEDS, count=COUNTS)
def test_two_seeds_share_no_nonce(seed: int, other: int, count: int) -> None:
    """Who knows one world knows nothing of another, even with the same number for the contents."""
    if seed != other:
        first, second = world.make(seed, count, contents=5), world.make(other, count, contents=5)
        assert not set(nonces(first)) & set(nonces(second))
        assert not set(answers(first).values()) & set(answers(second).values())


@given(seed=SEEDS, contents=SEEDS, count=COUNTS)
def test_a_twin_has_the_same_names_and_other_contents(seed: int, contents: int, count: int) -> None:
    """Paths, kinds, columns and questions are the same; each answer and each content's nonce is another."""
    first, twin = world.make(seed, count), world.twin(seed, count, contents)
    if seed == contents:
        assert first == twin
        return
    assert first.texts.keys() == twin.texts.keys()
    for mine, its in zip(first.known["questions"], twin.known["questions"], strict=True):
        assert mine["text"] == its["text"]
        assert mine["answer"] != its["answer"]
        assert found_again(its, twin.texts) == its["answer"]
    for mine, its in zip(first.known["items"], twin.known["items"], strict=True):
        assert mine["name_nonce"] == its["name_nonce"]
        assert mine["content_nonce"] != its["content_nonce"]
    for path, text in first.texts.items():
        assert path == "README.md" or text != twin.texts[path]
        if path.endswith(".csv"):
            assert text.split("\n")[0] == twin.texts[path].split("\n")[0]


@given(seed=SEEDS, count=COUNTS)
def test_references_lead_to_files_and_dead_ends_nowhere(seed: int, count: int) -> None:
    """What a note, a record or an inventory names is there; what a dead end names is not."""
    made = world.make(seed, count)
    kinds = {file["path"]: file["kind"] for file in made.known["files"]}
    assert {"table", "record", "log", "reference", "puzzle", "dead end", "clue", "inventory"} <= set(kinds.values())
    for path, kind in kinds.items():
        for named in re.findall(r"/world/[^`\"\s]+\.\w+", made.texts[path.removeprefix("/world/")]):
            assert (named in kinds) == (kind != "dead end")


@given(contents=SEEDS)
def test_the_seed_world_has_a_twin(contents: int) -> None:
    """The three files again, with other rows and another clue."""
    made = world.twin(None, None, contents)
    original = json.loads(seed_world.KNOWN.read_text())
    assert [file["path"] for file in made.known["files"]] == [file["path"] for file in original["files"]]
    for mine, its in zip(original["questions"], made.known["questions"], strict=True):
        assert mine["text"] == its["text"]
        assert mine["answer"] != its["answer"]
        assert found_again(its, made.texts) == its["answer"]


def test_what_is_known_of_the_seed_world_is_so() -> None:
    """seed_known.json against the three files; to write it anew after a change, see `seed_world.known`."""
    texts = {path: (seed_world.DIRECTORY / path).read_text() for path in seed_world.KINDS}
    known = json.loads(seed_world.KNOWN.read_text())
    assert known == seed_world.known(texts)
    assert {str(path.relative_to(seed_world.DIRECTORY)) for path in seed_world.DIRECTORY.rglob("*.*")} == texts.keys()
    for question in known["questions"]:
        assert found_again(question, texts) == question["answer"]


def script(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, *map(str, words)], capture_output=True, text=True, timeout=60, check=False
    )


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_the_script_writes_the_same_bytes_twice(tmp_path: Path) -> None:
    """In two processes, whose hashes of strings differ; the known list lies beside the world, never in it."""
    for name in ("one", "two"):
        ended = script("--seed", 7, "--size", "small", "--out", tmp_path / name)
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"{tmp_path / name / 'world'}\n", "")
    assert tree(tmp_path / "one") == tree(tmp_path / "two")
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == ["known.json", "world"]
    known = json.loads((tmp_path / "one/known.json").read_text())
    assert (known["version"], known["seed"], known["size"]) == (1, 7, "small")
    on_disk = {f"/world/{path}": data for path, data in tree(tmp_path / "one/world").items()}
    assert {file["path"]: file["bytes"] for file in known["files"]} == {
        path: len(data) for path, data in on_disk.items()
    }
    assert len(on_disk) == SIZES["small"]


def test_these_bytes_stay() -> None:
    """A world of today can be made again with the next version: its digest is fixed. A change of the generator that
    alters it needs another version of the key in draws.py."""
    known = world.known_text(world.make(7, "small"))  # which has the digest of each file
    assert (
        hashlib.sha256(known.encode()).hexdigest() == "f5219193d8655d2407c67f996d5bcb12e12fd2bad835f1bc070c740b51512638"
    )


def test_everybody_may_read_a_world(tmp_path: Path) -> None:
    """Also where the operator's umask lets nobody: the container's user is none of the host's."""
    command = f"umask 077 && exec {sys.executable} {SCRIPT} --seed 1 --size 14 --out {tmp_path / 'out'}"
    subprocess.run(["sh", "-c", command], check=True, capture_output=True, timeout=60)
    for directory, _, names in os.walk(tmp_path / "out/world"):
        assert os.stat(directory).st_mode & 0o777 == 0o755
        assert all(os.stat(Path(directory, name)).st_mode & 0o777 == 0o644 for name in names)


@each_row(
    "words, told",
    [
        ("--seed x --size small", "--seed x: expected a whole number"),
        ("--seed -1 --size small", "--seed -1: expected a whole number"),
        ("--seed 1.5 --size small", "--seed 1.5: expected a whole number"),
        (f"--seed {2**63} --size small", "expected a whole number from 0 to 2**63 - 1"),
        ("--seed 1 --size huge", "--size huge: expected small, medium, large or a number of files from 14 to 20000"),
        ("--seed 1 --size 13", "--size 13: expected"),
        ("--seed 1 --size 20001", "--size 20001: expected"),
        ("--seed 1 --size -5", "--size -5: expected"),
        ("--seed 1", "--size: expected small"),
        ("--seed 1 --size small --contents b", "--contents b: expected a whole number"),
        ("--seed-world", "expected --contents M with it"),
    ],
)
def test_bad_words_are_refused(words: str, told: str) -> None:
    """By name, with what was expected; and nothing is made."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        assert world.main([*words.split(), "--out", "/nonexistent/minifram-world"]) == 2
    assert told in said.getvalue()


def test_a_directory_with_anything_in_it_is_left_alone(tmp_path: Path) -> None:
    """So is a file, and a place that cannot be written."""
    (tmp_path / "mine").write_text("precious")
    for out in (tmp_path, tmp_path / "mine"):
        ended = script("--seed", 1, "--size", 14, "--out", out)
        assert ended.returncode == 2
        assert f"--out {out}" in ended.stderr
        assert "Traceback" not in ended.stderr
    assert tree(tmp_path) == {"mine": b"precious"}


def test_make_says_what_is_wrong() -> None:
    """The same for callers in Python."""
    with pytest.raises(world.Refused, match="--contents -1"):
        world.make(1, 14, contents=-1)
    with pytest.raises(world.Refused, match="--size 5"):
        world.make(1, 5)

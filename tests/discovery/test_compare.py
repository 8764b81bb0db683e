"""Runs compared by model and paired by world: numbers that were worked out by hand, and the picture."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from compare import as_json, compare, main, read, table
from coverage_picture import Curve, median_line, over_money, over_steps, svg, tick_of
from statistics_of_runs import Estimate, Scored, estimate, pairs, unpaired

COMPARE = Path(__file__).parents[2] / "discovery/scoring/compare.py"


def a_run(
    runs: Path,
    name: str,
    model: str | None = "one",
    seed: int | None = 7,
    read: tuple[tuple[str, ...], ...] = (("a",), ("a", "b"), ()),
    usd: tuple[float | None, ...] = (0.1, 0.3, 0.4),
    right: float | None = 0.5,
    score: bool = True,
    after: tuple[str, ...] = (),
    **meta: Any,
) -> Path:
    """A run's directory, of a world of four files, with these files read in each step and after the last."""
    path = runs / name
    path.mkdir(parents=True)
    world = {"directory": "/w", "seed": seed, "size": 4}
    given = {"version": 1, "container": "c", "mode": "minifram", "prompt": "", "model": model, "world": world}
    write(path / "meta.json", given | {"started_at": "2026-11-23T06:30:00.123Z", "ended_at": None} | meta)
    commands = [
        {"t": float(step), "plan": "", "command": "ls", "stdout": "", "stderr": "", "exit_code": 0, "latency_s": 0.1}
        | {"step": step}
        | ({} if spent is None else {"usd": spent, "tokens": 10})
        for step, spent in enumerate(usd, 1)
    ]
    write(path / "events.jsonl", *commands)
    steps: list[dict[str, Any]] = [{"step": step, "read": worldly(names)} for step, names in enumerate(read, 1)]
    rest = {"listed": [], "tools": {}, "changed": [], "overflow": False}
    first = {"version": 1, "world": True, "home": True, "why": {}}
    write(path / "witness.jsonl", first, *(step | rest for step in [*steps, {"step": None, "read": worldly(after)}]))
    files = [
        {"path": f"/world/{name}", "sha256": f"{seed}{name}".ljust(64, "0"), "bytes": 1, "lines": 1, "kind": "data"}
        for name in "abcd"
    ]
    known = {"version": 1, "seed": seed, "size": 4, "files": files, "items": [], "questions": []}
    write(path / "known.json", known)
    if score:
        honest = {"questions": {"share": right}, "checkpoints": {"of": 8, "found": 4, "touched": 2, "used": 1}}
        write(path / "score.json", {"steps": len(usd), "coverage_files": 3, "honest": honest})
    return path


def worldly(names: tuple[str, ...]) -> list[str]:
    return [f"/world/{name}" for name in names]


def write(path: Path, *values: Any) -> None:
    path.write_text("".join(json.dumps(value) + "\n" for value in values))


def scored(run: str, model: str, world: str, value: float | None) -> Scored:
    return Scored(run, model, world, f"world {world}", {"f": value})


# --- numbers -----------------------------------------------------------------------------------------------------


def test_a_median_has_the_interval_of_its_bootstrap() -> None:
    """Of seven values the resampled median is below the second with probability 0.010 and at most the second with
    0.09, so the 2.5 % point is the second; of two, each value is the median of a quarter of the samples."""
    assert estimate([]) is None
    assert estimate([4.0]) == Estimate(4.0, None, None, 1)
    assert estimate([1.0, 3.0]) == Estimate(2.0, 1.0, 3.0, 2)
    assert estimate([7, 1, 2, 6, 3, 5, 4]) == Estimate(4.0, 2.0, 6.0, 7)
    assert estimate([5.0] * 9) == Estimate(5.0, 5.0, 5.0, 9)
    wide = estimate(list(range(101)))
    assert wide is not None
    assert wide.low is not None
    # By the normal approximation, 50 -+ 1.96 * sqrt(101) / 2 = 40.2 and 59.8.
    assert (wide.median, abs(wide.low - 40) <= 1, abs((wide.high or 0) - 60) <= 1) == (50, True, True)
    assert estimate(list(range(101))) == wide


def test_models_are_paired_by_world() -> None:
    """Differences over the worlds that both explored: 2 - 1 and 6 - 4, where of two runs in a world the median counts;
    the world of one model alone is in no pair, though it is in the model's own median."""
    runs = [
        scored("r1", "a", "w1", 1.0),
        scored("r2", "a", "w2", 3.0),
        scored("r3", "a", "w2", 5.0),
        scored("r4", "a", "w3", 100.0),
        scored("r5", "b", "w1", 2.0),
        scored("r6", "b", "w2", 6.0),
        scored("r7", "b", "", 50.0),
    ]
    (pair,) = pairs(runs, ["f"])
    assert (pair.a, pair.b, pair.worlds) == ("a", "b", ("world w1", "world w2"))
    assert pair.figures["f"] == Estimate(1.5, 1.0, 2.0, 2)
    assert unpaired(runs) == [
        "r7: which world it explored is not known",
        "r4: only a explored its world (world w3)",
    ]


def test_a_figure_that_a_run_lacks_is_in_no_difference() -> None:
    """Nothing stands for null."""
    runs = [scored("r1", "a", "w1", None), scored("r2", "b", "w1", 2.0)]
    (pair,) = pairs(runs, ["f"])
    assert (pair.worlds, pair.figures) == (("world w1",), {})
    assert unpaired(runs[:1]) == []


# --- runs --------------------------------------------------------------------------------------------------------


def test_a_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Shares of the score, money of the last event, and what the host saw being read, also after the last step."""
    found = read(a_run(tmp_path, "r1", after=("c", "elsewhere")))
    figures = found.scored.figures
    assert {name: figures[name] for name in ("questions_right", "checkpoints_found", "checkpoints_used", "usd")} == {
        "questions_right": 0.5,
        "checkpoints_found": 0.5,
        "checkpoints_used": 0.125,
        "usd": 0.4,
    }
    assert figures["success"] is None
    assert found.curve == Curve("one", "r1", 4, (1, 2, 3), (0.1, 0.3, 0.4))
    assert (found.scored.model, found.scored.world_words) == ("one", "seed 7, size 4")


def test_a_run_without_a_stored_score_is_scored(tmp_path: Path) -> None:
    """By the scorer, without trials of tools."""
    assert read(a_run(tmp_path, "r1", score=False)).scored.figures["steps"] == 3


def test_the_same_files_are_the_same_world(tmp_path: Path) -> None:
    """Whatever the directory was called; other contents are another world, also with the same seed."""
    one, two, other = (
        read(a_run(tmp_path, name, seed=seed, world={"directory": directory, "seed": 7, "size": 4})).scored.world
        for name, seed, directory in (("r1", 7, "/w"), ("r2", 7, "/elsewhere"), ("r3", 8, "/w"))
    )
    assert one == two != other
    by_hand = read(a_run(tmp_path, "r4", seed=None, model=None, mode="manual")).scored
    assert by_hand.model == "manual"
    assert by_hand.world_words.startswith("the seed world, ")


def test_the_table_and_json_say_the_same(tmp_path: Path) -> None:
    """Two models in two worlds each, one of them in common."""
    for name, model, seed, right in (("r1", "one", 7, 0.25), ("r2", "one", 8, 0.5), ("r3", "two", 7, 0.75)):
        a_run(tmp_path, name, model, seed, right=right)
    a_run(tmp_path, "r4", "two", 9, right=1.0)
    compared = compare([read(tmp_path / name) for name in ("r1", "r2", "r3", "r4")])
    lines = list(table(compared))
    assert any("one (2)" in line and "two (2)" in line for line in lines)
    (row,) = (line.split("  ") for line in lines if line.startswith("questions_right  ") and "[" in line)
    assert [cell.strip() for cell in row if cell.strip()] == [
        "questions_right",
        "0.375 [0.25, 0.5]",
        "0.875 [0.75, 1]",
    ]
    assert "two less one, paired by world (1): seed 7, size 4" in lines
    assert "questions_right      +0.5 (1)" in [" ".join(line.split(" ")) for line in lines]
    assert "not paired  r4: only two explored its world (seed 9, size 4)" in lines
    told = json.loads(json.dumps(as_json(compared, [])))
    assert told["pairs"][0]["figures"]["questions_right"] == {"median": 0.5, "low": None, "high": None, "n": 1}
    assert told["models"]["one"]["questions_right"]["low"] == 0.25
    assert len(told["unpaired"]) == 2


@pytest.mark.parametrize(
    "spoil",
    [
        lambda run: (run / "meta.json").write_text("{"),
        lambda run: (run / "meta.json").write_text('{"version": 2}'),
        lambda run: (run / "score.json").write_text("[1]"),
        lambda run: (run / "score.json").write_text("not JSON"),
    ],
)
def test_a_bad_run_is_named_and_left_out(tmp_path: Path, spoil: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The others are compared; with none that is good the command fails."""
    good, bad = a_run(tmp_path, "good"), a_run(tmp_path, "bad")
    spoil(bad)
    left_out = main([str(good), str(bad), str(tmp_path / "none"), "--json"])
    out, err = capsys.readouterr()
    assert (left_out, [run["run"] for run in json.loads(out)["runs"]]) == (0, ["good"])
    assert f"{bad} is left out: " in err
    assert f"{tmp_path / 'none'} is left out: " in err
    assert len(json.loads(out)["warnings"]) == 2
    assert main([str(bad)]) == 1


def test_the_command_draws_what_was_read(tmp_path: Path) -> None:
    """As a program with the standard library alone: an SVG with a line for each run in both panels."""
    a_run(tmp_path, "r1", "one")
    a_run(tmp_path, "r2", "one")
    a_run(tmp_path, "r3", "<two & three>", usd=(None, None, None))
    picture = tmp_path / "coverage.svg"
    words = [
        sys.executable,
        "-S",
        "-s",
        "-E",
        str(COMPARE),
        *map(str, sorted(tmp_path.glob("r?"))),
        "--svg",
        str(picture),
    ]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    drawn = ElementTree.parse(picture).getroot()
    lines = [path for path in drawn.iter("{http://www.w3.org/2000/svg}path") if len(path)]
    assert [path[0].text for path in lines] == ["one", "one", "one", "<two & three>", "one", "one", "one"]


def test_what_others_wrote_steers_no_terminal_and_breaks_no_picture(tmp_path: Path) -> None:
    """A model's name is from the run's own files, and a copied run may have any."""
    a_run(tmp_path, "r1", "a\x1b[31mred\x00\u202e</title><script>alert(1)</script>")
    a_run(tmp_path, "r2", "lone \ud800", usd=(-0.3, -0.2, -0.1))
    a_run(tmp_path, "r3", "x" * 1_000_000, usd=(5.0, 1e300, 0.1))
    a_run(tmp_path, "r4", "small", usd=(5e-324, 5e-324, 5e-324))
    words = [sys.executable, str(COMPARE), *map(str, sorted(tmp_path.glob("r?"))), "--svg"]
    for picture, more in (("a.svg", ()), ("b.svg", ("--json",))):
        ended = subprocess.run([*words, str(tmp_path / picture), *more], capture_output=True, timeout=60, check=False)
        assert (ended.returncode, ended.stderr) == (0, b"")
        assert "\u202e" not in ended.stdout.decode()
        assert set(ended.stdout) & set(range(32)) == {10}
        assert len(ended.stdout) < 100_000
        drawn = (tmp_path / picture).read_text()
        assert not {element.tag for element in ElementTree.fromstring(drawn).iter() if "script" in element.tag}
        assert "nan" not in drawn
        assert "inf" not in drawn
    for usd in (-3.0, 1e300):
        a_run(tmp_path / str(usd), "alone", usd=(usd, usd, usd))
        assert main([str(tmp_path / str(usd) / "alone"), "--svg", str(tmp_path / "c.svg")]) == 0


# --- the picture -------------------------------------------------------------------------------------------------


def test_lines_are_staircases_and_their_median_too() -> None:
    """A run that has ended keeps what it had read."""
    short, long = Curve("m", "r1", 4, (2,), (0.5,)), Curve("m", "r2", 4, (1, 3, 4), (0.1, 0.2, 0.4))
    assert over_steps(short) == [(0, 0), (1, 0.5)]
    assert over_money(long) == [(0, 0), (0.1, 0.25), (0.2, 0.75), (0.4, 1)]
    assert over_money(Curve("m", "r3", 4, (1, 2), (0.1, None))) == []
    assert median_line([over_steps(short), over_steps(long)]) == [(0, 0), (1, 0.375), (2, 0.625), (3, 0.75)]


def test_marks_are_round_and_reach_the_end() -> None:
    """Of steps, whole ones."""
    assert [tick_of(most, True) for most in (0, 1, 3, 5, 6, 39, 40, 41, 9999)] == [1, 1, 1, 2, 2, 10, 10, 15, 2500]
    assert [tick_of(most, False) for most in (0.841, 0.04, 1.0, 6.0)] == [0.25, 0.01, 0.25, 1.5]


def test_a_picture_without_anything_to_draw_says_so() -> None:
    """Both panels; and a very long run has no more points than a screen."""
    assert svg([]).count("no run tells this") == 2
    steps = 100_000
    assert len(svg([Curve("m", "r", steps, tuple(range(steps)), (None,) * steps)])) < 100_000

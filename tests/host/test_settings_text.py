"""The settings in words."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host.agent.settings_text import entries, explained, file_text, set_lines
from infra.shared.section import Section
from infra.shared.settings import Settings
from infra.shared.settings_file import SettingsError, parse_settings
from tests.host.desk import Desk

CHOSEN = {"sandbox": "process", "autonomy": "propose", "model.provider": "anthropic"}


def test_the_file_that_init_writes_sets_what_was_chosen_and_nothing_else() -> None:
    """Every other key stays at its default, and the file says what that is."""
    settings = parse_settings(file_text("a", CHOSEN))

    assert settings.autonomy == "propose"
    assert settings.model.provider == "anthropic"
    assert parse_settings(file_text("a", {})) == Settings()
    sections = {name for name in Settings.__struct_fields__ if isinstance(getattr(settings, name), Section)}
    assert set(set_lines(file_text("a", CHOSEN))) == {*CHOSEN, *sections}


def test_every_key_of_the_file_can_be_uncommented() -> None:
    """With all '# ' taken off, the file still reads as the defaults: indentation and values are right."""
    text = re.sub(r"^( *)# (?=[a-z0-9_]+:)", r"\1", file_text("a", {}), flags=re.MULTILINE)

    assert parse_settings(text) == Settings()
    assert {entry.key for entry in entries(Settings(), {}, "")} <= set(set_lines(text))


def test_meanings_and_types_come_from_the_settings_themselves() -> None:
    """The docstring below a field is what the PM reads about it."""
    by_key = {entry.key: entry for entry in entries(Settings(), {}, "")}

    assert "only you move main" in by_key["autonomy"].meaning
    assert by_key["autonomy"].type == "one of merge, propose, frozen"
    assert by_key["limits.bash_seconds"].type == "number"
    assert by_key["model.base_url"].type == "text or nothing"
    assert by_key["limits.door_seconds"].meaning != ""


def test_a_set_key_names_its_line() -> None:
    """Where a value came from is the file and line, or the default."""
    text = "# head\nbudget:\n  daily_usd: 3\nmodel: {prices: {other: {input: 1, output: 2}}}\n"
    found = {entry.key: entry for entry in entries(parse_settings(text), set_lines(text), "m.yaml")}

    assert (found["budget.daily_usd"].value, found["budget.daily_usd"].origin) == (3.0, "m.yaml:3")
    assert found["budget.daily_tokens"].origin == "default"
    assert found["model.prices.other.input"].origin == "m.yaml:4"


def problems(text: str, source: str) -> list[str]:
    """A line for each thing that is wrong; empty when nothing is."""
    try:
        parse_settings(text, source)
    except SettingsError as error:
        return str(error).splitlines()
    return []


def test_all_that_is_wrong_is_named_at_once() -> None:
    """Unknown keys at any depth, wrong types and impossible numbers, each with its key."""
    text = "sandbx: 1\nmodel: {nam: x, max_tokens: many}\nbudget: 3\nlimits: {bash_seconds: -1}\nautonomy: full\n"
    found = "\n".join(problems(text, "m.yaml"))

    assert "unknown key sandbx; did you mean sandbox?" in found
    assert "unknown key model.nam; did you mean model.name?" in found
    assert "max_tokens" in found
    assert "budget must be a mapping" in found
    assert "limits.bash_seconds is -1" in found
    assert "autonomy" in found


@pytest.mark.parametrize("text", ["a: [", "- a", "just words", "\t", "model: {prices: {x: 3}}"])
def test_what_is_no_mapping_is_one_problem(text: str) -> None:
    """A file that is not YAML, or no mapping, is refused in words."""
    assert len(problems(text, "m.yaml")) == 1


@given(st.text(max_size=60))
def test_no_text_makes_the_search_for_problems_fail(text: str) -> None:
    """Whatever stands in the file: it is good, or has a problem in words."""
    try:
        parse_settings(text, "m.yaml")
    except SettingsError:
        assert problems(text, "m.yaml")
    else:
        assert problems(text, "m.yaml") == []


def test_config_shows_value_origin_and_meaning(desk: Desk) -> None:
    """`minifram config KEY` answers for a key or a section; an unknown one is not found, with near ones."""
    path = Path(desk.home().settings)
    path.write_text(path.read_text().replace("# bash_seconds: 600.0", "bash_seconds: 5"))

    shown = desk.done("config", "limits").out
    assert "limits.bash_seconds: 5.0" in shown
    assert f"set in {desk.home().settings}:" in shown
    assert "limits.output_chars: 10000   default" in shown

    everything = desk.done("config", "--json").json
    assert everything["schema"] == "minifram.config/1"
    by_key = {entry["key"]: entry for entry in everything["settings"]}
    assert by_key["limits.bash_seconds"]["value"] == 5.0
    assert by_key["limits.bash_seconds"]["default"] == 600.0
    assert by_key["budget.daily_usd"]["origin"] == "default"

    wrong = desk.run("config", "limits.bash_second")
    assert wrong.code == 4
    assert "limits.bash_seconds" in wrong.err


def test_config_of_a_bad_file_names_every_problem(desk: Desk) -> None:
    """It ends with 2, as every verb does that needs the settings."""
    with open(desk.home().settings, "w", encoding="utf-8") as file:
        file.write("sandbx: process\nautonomy: full\n")

    ended = desk.run("config")
    assert ended.code == 2
    assert "sandbx" in ended.err
    assert "autonomy" in ended.err
    assert desk.call("up").code == 2


def test_a_missing_settings_file_is_said(desk: Desk) -> None:
    """The words name the file and what an empty one would mean."""
    os.unlink(desk.home().settings)
    with pytest.raises(SettingsError, match="an empty file means all defaults"):
        explained(desk.home().settings)
    ended = desk.call("up")
    assert ended.code == 4
    assert desk.home().settings in ended.err


@pytest.mark.parametrize("sandbox", ["podman", "process"])
def test_a_script_that_no_model_can_read_is_refused_at_once(desk: Desk, sandbox: str) -> None:
    """By config, with the value that it shows, and by up, before anything is started."""
    Path(desk.home().settings).write_text(f"sandbox: {sandbox}\nmodel: {{provider: scripted, script: /pm/x.yaml}}\n")
    assert "seed" not in desk.run("config").out, "what the developers call their sources says nothing to a user"
    shown = desk.run("config", "model.script")
    assert (shown.code, "model.script: /pm/x.yaml" in shown.out) == (8, True)
    assert "model.script is /pm/x.yaml" in shown.err
    if sandbox == "process":
        refused = desk.run("up")
        assert (refused.code, "expected a file, found none at /pm/x.yaml" in refused.err) == (2, True)
    Path(desk.home().settings).write_text(f"sandbox: {sandbox}\n")
    assert desk.done("config", "model.script").err == ""

"""The settings in words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from host.settings import entries, explained, file_text
from infra.keep.settings.check import parse_settings
from infra.keep.settings.schema import Settings
from tests.host.desk import Desk

CHOSEN = {"sandbox": "process", "autonomy": "propose", "model.provider": "anthropic"}


def test_the_file_that_init_writes_sets_what_was_chosen_and_nothing_else() -> None:
    """Every other key stays at its default; with all '# ' taken off, the file still reads as the defaults."""
    settings = parse_settings(file_text("a", CHOSEN))
    assert (settings.autonomy, settings.model.provider) == ("propose", "anthropic")
    set_keys = yaml.safe_load(file_text("a", CHOSEN)).items()
    unset = ({"internal": None}, {"ghost": None, "stream": None})
    assert {name: value for name, value in set_keys if value is not None and value not in unset} == {
        "sandbox": "process",
        "autonomy": "propose",
        "model": {"provider": "anthropic"},
    }

    text = re.sub(r"^( *)# (?=[a-z0-9_]+:)", r"\1", file_text("a", {}), flags=re.MULTILINE)
    assert parse_settings(text) == parse_settings(file_text("a", {})) == Settings()
    assert all(f"{entry.key.rpartition('.')[2]}:" in text for entry in entries(Settings()))


def test_a_value_of_the_environment_names_its_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "minifram.yaml"
    path.write_text("web: {browser: on, pool_size: 2}\n")
    monkeypatch.setenv("BROWSER_POOL_SIZE", "3")
    found = {entry.key: entry for entry in explained(str(path))[1]}
    assert (found["web.pool_size"].value, found["web.pool_size"].origin) == (3, "$BROWSER_POOL_SIZE")
    assert (found["web.browser"].origin, found["web.stream.quality"].origin) == (str(path), "default")


def test_each_setting_is_explained() -> None:
    """The docstring below a field is what the PM reads about it."""
    by_key = {entry.key: entry for entry in entries(Settings())}

    assert "only you move main" in by_key["autonomy"].meaning
    assert [key for key, each in by_key.items() if not each.meaning] == []


def test_config_shows_value_origin_and_meaning(desk: Desk) -> None:
    """`minifram config KEY` answers for a key or a section; an unknown one is not found, with near ones."""
    path = Path(desk.home().settings)
    path.write_text("limits: {bash_seconds: 5}\nmodel: {prices: {other: {input: 1, output: 2}}}\n")

    shown = desk.done("config", "limits").out
    assert f"limits.bash_seconds: 5.0   set in {path}, default 600.0\n" in shown
    assert "limits.log_bytes: 20971520   default\n" in shown

    everything = desk.done("config", "--json").json
    assert everything["schema"] == "minifram.config/1"
    by_key = {entry["key"]: entry for entry in everything["settings"]}
    assert (by_key["limits.bash_seconds"]["value"], by_key["limits.bash_seconds"]["default"]) == (5.0, 600.0)
    assert by_key["budget.daily_usd"]["origin"] == "default"
    assert by_key["model.prices"]["value"]["other"]["input"] == 1

    wrong = desk.run("config", "limits.bash_second")
    assert wrong.code == 4
    assert "limits.bash_seconds" in wrong.err


def test_config_of_a_bad_file_names_every_problem(desk: Desk) -> None:
    """It ends with 2, as every verb does that needs the settings; a missing file is named."""
    path = Path(desk.home().settings)
    path.write_text("sandbx: process\nautonomy: full\n")
    ended = desk.run("config")
    assert (ended.code, "sandbx" in ended.err, "autonomy" in ended.err) == (2, True, True)
    assert desk.call("up").code == 2
    path.unlink()
    assert "an empty file means all defaults" in desk.run("config").err
    ended = desk.call("up")
    assert (ended.code, str(path) in ended.err) == (4, True)


@pytest.mark.parametrize("sandbox", ["podman", "process"])
def test_a_script_that_no_model_can_read_is_refused_at_once(desk: Desk, sandbox: str) -> None:
    """By config, with the value that it shows, and by up, before anything is started."""
    Path(desk.home().settings).write_text(f"sandbox: {sandbox}\nmodel: {{provider: scripted, name: /pm/x.yaml}}\n")
    shown = desk.run("config", "model.name")
    assert (shown.code, "model.name: /pm/x.yaml" in shown.out) == (8, True)
    assert "model.name is /pm/x.yaml" in shown.err
    if sandbox == "process":
        refused = desk.run("up")
        assert (refused.code, "expected a file, found none at /pm/x.yaml" in refused.err) == (2, True)
    Path(desk.home().settings).write_text(f"sandbox: {sandbox}\n")
    assert desk.done("config", "model.name").err == ""

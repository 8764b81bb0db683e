"""The PM's settings: what is written is meant, and what cannot be meant is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.keep.model_settings import Price
from infra.keep.settings import Settings, runner_limits
from infra.keep.settings_file import SettingsError, parse_settings, read_settings
from infra.shared.plain_yaml import MAX_DEPTH, parse_yaml
from tests.shared.rows import each_row
from tests.shared.texts import any_text


@each_row(
    "text", ["", "\n", "# nothing yet\n", "---\n", "---\n...\n", "\ufeff", "limits:\nmodel:\n", "model: {prices: }\n"]
)
def test_what_is_left_out_has_its_default(text: str) -> None:
    """An empty file, and a section of which nothing is left but its name, are fine."""
    assert parse_settings(text) == Settings()


def test_each_key_reaches_its_place() -> None:
    """Sections, numbers of both kinds, words, prices."""
    text = """
sandbox: podman
autonomy: propose
model:
  provider: anthropic
  name: "1.10"
  prices:
    "1.10": {input: 3, output: 15.5, cache_read: 0}
budget: {daily_usd: 1.5}
limits: {run_steps: 7, bash_seconds: .5, log_bytes: 90_000}
"""
    got = parse_settings(text)
    assert (got.sandbox, got.autonomy, got.model.provider, got.model.name) == ("podman", "propose", "anthropic", "1.10")
    assert got.model.prices == {"1.10": Price(input=3.0, output=15.5, cache_read=0.0)}
    assert got.budget.daily_usd == 1.5
    limits = runner_limits(got)
    assert (limits.run_steps, limits.bash_seconds, got.limits.log_bytes) == (7, 0.5, 90_000)


def test_settings_are_values() -> None:
    """Nobody changes them after they were read."""
    with pytest.raises(AttributeError, match="immutable"):
        Settings().autonomy = "frozen"  # type: ignore[misc]


@each_row(
    "text, words",
    [
        ("limts: {}", "unknown key limts; did you mean limits?"),
        ("limits: {unit_stps: 1}", "unknown key limits.unit_stps; did you mean limits.run_steps?"),
        ("egress: {run_steps: 1}", "unknown key egress.run_steps; known here: mode"),
        ("xyz: 1", "unknown key xyz; known here: sandbox, autonomy"),
        (
            "model: {prices: {m: {inptu: 1, output: 2}}}",
            "unknown key model.prices.m.inptu; did you mean model.prices.m.input?",
        ),
        ("no: 1", "unknown key no;"),
        ("1: 1", "unknown key 1;"),
        ("~: 1", "unknown key None;"),
        ("Limits: {}", "unknown key Limits; did you mean limits?"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_one(text: str, words: str) -> None:
    """A typo never passes for a setting."""
    with pytest.raises(SettingsError) as refused:
        parse_settings(text, "my.yaml")
    assert str(refused.value).startswith(f"my.yaml: {words}")
    assert "minifram config" not in str(refused.value), "it ends with the same error"


def test_everything_that_is_wrong_is_named_at_once() -> None:
    """A line for each problem; what is right beside it is not called wrong."""
    text = """
sandbx: process
autonomy: full
limits: {run_steps: ten, bash_seconds: 0, run_seconds: 60}
model:
  provider: openai
  prices: {m: {input: 1, output: 2}, n: {input: 1}}
  then: [{provider: ollama, max_tokens: 0}, {provider: openai, base_url: "https://other.org"}]
protected: {branches: ['', 'pm/*', '..']}
web: {package_hosts: [one.example, 'a b', 'c d']}
budget: 3
"""
    with pytest.raises(SettingsError) as refused:
        parse_settings(text, "my.yaml")
    lines = str(refused.value).splitlines()
    starts = ["unknown key sandbx", "autonomy is 'full'", "limits.run_steps is 'ten'", "limits.bash_seconds is 0.0"]
    starts += ["model.prices[...]: object missing", "model.then[0].max_tokens is 0"]
    starts += ["protected.branches:", "protected.branches:", "web.package_hosts:", "web.package_hosts:"]
    starts += ["budget must be a mapping", "model: OPENAI_API_KEY would go to two servers"]
    assert len(lines) == len(starts)
    for line, start in zip(lines, starts, strict=True):
        assert line.startswith(f"my.yaml: {start}")


def test_where_keys_go_is_judged_by_the_whole_model() -> None:
    """A problem elsewhere makes no models wrong that are right together."""
    model = "{provider: openai, base_url: 'https://o.org', then: [{provider: openai, base_url: 'https://o.org'}]}"
    text = f"budget: 3\nmodel: {model}"
    with pytest.raises(SettingsError) as refused:
        parse_settings(text)
    assert "servers" not in str(refused.value)
    assert len(parse_settings(text.removeprefix("budget: 3\n")).model.then) == 1


@each_row(
    "text, words",
    [
        ("[]", "the file must be a mapping of keys to values, found list"),
        ("limits", "the file must be a mapping of keys to values, found str"),
        ("0", "the file must be a mapping of keys to values, found int"),
        ("limits: 3", "limits must be a mapping of keys to values, found int"),
        ("model: []", "model must be a mapping of keys to values, found list"),
        ("model: {prices: {m: }}", "model.prices.m must be a mapping of keys to values, found nothing"),
        ("model: {prices: [1]}", "model.prices is [1]; expected `object`, got `array`"),
        ("model: {prices: {m: {input: 1}}}", "model.prices[...]: object missing required field `output`"),
        ("web: {allowed_domains: ['https://a.org']}", "web.allowed_domains: 'https://a.org' is an address"),
        ("web: {package_hosts: [pypi]}", "web.package_hosts: 'pypi' is a single word"),
        ("web: {search_url: 'https://s.org/?q='}", "web.search_url is 'https://s.org/?q=': it must hold {query}"),
        ("web: {search_url: 'https://{query}/'}", "web.search_url is 'https://{query}/': it must hold {query}"),
        ("web: {search_url: 'https://me:pw@s.org/{query}'}", "web.search_url is "),
        ("web: {search_url: 'file:///{query}'}", "web.search_url is 'file:///{query}': it is no http or https"),
        ("autonomy: merg", "autonomy is 'merg'; expected one of merge, propose, frozen"),
        ("autonomy: [merge]", "autonomy is ['merge']; expected one of merge, propose, frozen"),
        ("sandbox: ~", "sandbox is None; expected one of podman, process"),
        (
            "model: {provider: gemini}",
            "model.provider is 'gemini'; expected one of auto, scripted, anthropic, openai, ollama",
        ),
        (
            "model: {provider: openai, then: [{provider: openai, base_url: 'https://o.org'}]}",
            "model: OPENAI_API_KEY would go to two servers, https://api.openai.com/v1 and https://o.org; give",
        ),
        ("model: {then: 3}", "model.then is 3; expected `array`, got `int`"),
        ("model: {then: [{}]}", "model.then[0]: object missing required field `provider`"),
        ("model: {then: [{provider: auto}]}", "model.then[0].provider is 'auto'; expected one of scripted, anthropic"),
        ("model: {then: [{provider: ollama, nam: x}]}", "unknown key model.then[0].nam; did you mean"),
        (
            "model: {then: [{provider: ollama, max_tokens: 0}]}",
            "model.then[0].max_tokens is 0; expected a number above",
        ),
        (f"model: {{then: [{'{provider: ollama}, ' * 9}]}}", "model.then has 9 models; at most 8"),
        ("model: {max_tokens: ~}", "model.max_tokens: expected `int`, got `null`"),
        ("model: {name: 3}", "model.name is 3; expected `str | null`, got `int`"),
        ("limits: {run_steps: ten}", "limits.run_steps is 'ten'; expected `int`, got `str`"),
        ("limits: {run_steps: '10'}", "limits.run_steps is '10'; expected `int`, got `str`"),
        ("limits: {run_steps: 1.5}", "limits.run_steps is 1.5; expected `int`, got `float`"),
        ("limits: {run_steps: 2.0}", "limits.run_steps is 2.0; expected `int`, got `float`"),
        ("limits: {bash_seconds: '1'}", "limits.bash_seconds is '1'; expected `float`, got `str`"),
        ("limits: {bash_seconds: yes}", "limits.bash_seconds is True; expected `float`, got `bool`"),
        ("limits: {bash_seconds: 0}", "limits.bash_seconds is 0.0; expected a number above 0"),
        ("limits: {bash_seconds: -1}", "limits.bash_seconds is -1.0; expected a number above 0"),
        ("limits: {bash_seconds: .inf}", "limits.bash_seconds is inf; expected a number above 0"),
        ("limits: {bash_seconds: .nan}", "limits.bash_seconds is nan; expected a number above 0"),
        ("limits: {run_steps: 999999999999999999999}", "limits.run_steps is 999999999999999999999; expected"),
        ("model: {prices: {m: {input: -1, output: 1}}}", "model.prices.m.input is -1.0; expected"),
        ("model: {prices: {m: {input: .nan, output: 1}}}", "model.prices.m.input is nan; expected"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_by_name(text: str, words: str) -> None:
    """The key, what was found and what was expected."""
    with pytest.raises(SettingsError) as refused:
        parse_settings(text, "my.yaml")
    assert str(refused.value).startswith(f"my.yaml: {words}")


@each_row(
    "text, words",
    [
        ("autonomy: no", "autonomy is False"),
        ("model: {name: no}", "model.name is False; expected `str | null`, got `bool`"),
        ("model: {name: 1.10}", "model.name is 1.1; expected `str | null`, got `float`"),
        ("limits: {run_steps: 0123}", "line 1: 0123 could be read in two ways"),
        ("limits: {run_steps: 0x10}", "line 1: 0x10 could be read in two ways"),
        ("limits: {run_steps: 0b11}", "line 1: 0b11 could be read in two ways"),
        ("limits:\n  run_seconds: 1:30", "line 2: 1:30 could be read in two ways"),
        ("limits:\n  run_seconds: 1:30.5", "line 2: 1:30.5 could be read in two ways"),
        ("limits: {run_steps: 1e3}", "limits.run_steps is '1e3'; expected `int`, got `str`"),
        ("autonomy: merge\nautonomy: frozen", "line 2: the key autonomy is given twice"),
        ("limits: {run_steps: 1, run_steps: 1}", "line 1: the key run_steps is given twice"),
        ("model: &m {name: x}", "line 1: anchors (&) and aliases (*) are not understood"),
        ("model: *m", "line 1: anchors (&) and aliases (*) are not understood"),
        (
            "model: !!python/object/apply:os.system [id]",
            "line 1: the tag tag:yaml.org,2002:python/object/apply:os.system",
        ),
        ("model: !!int x", "line 1: the tag tag:yaml.org,2002:int"),
        ("<<: {autonomy: frozen}", "line 1: could not determine a constructor for the tag 'tag:yaml.org,2002:merge'"),
        ("? [a]\n: 1", "line 1: a key must be a plain word"),
        ("? {a: 1}\n: 1", "line 1: a key must be a plain word"),
        ("autonomy: merge\n---\nautonomy: frozen", "line 2: but found another document"),
        ("a: [", "line"),
        ("a: 'x", "line"),
        ("\tlimits: {}", "line 1: found character"),
        ("a: b: c", "line 1: mapping values are not allowed"),
        ("%YAML 9.9\n---\na: 1", "line 1: found incompatible YAML document"),
        ("a\x00b", "control characters"),
        ("\udcff: 1", "surrogates"),
        ("[" * 100_000, f"line 1: nested more than {MAX_DEPTH} deep"),
        ("a: {" * 100_000, f"line 1: nested more than {MAX_DEPTH} deep"),
    ],
)
def test_a_trap_of_yaml_is_refused_not_misread(text: str, words: str) -> None:
    """What YAML 1.1 would quietly turn into something else, or build without end, is an error with its line."""
    with pytest.raises(SettingsError) as refused:
        parse_settings(text, "my.yaml")
    assert str(refused.value).startswith("my.yaml")
    assert words in str(refused.value)


def test_a_bomb_of_aliases_costs_nothing() -> None:
    """Nine levels of nine would be four hundred million values."""
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    with pytest.raises(SettingsError, match="anchors"):
        parse_settings("\n".join(levels))


def test_a_date_stays_a_word() -> None:
    """Also one that no calendar has, and a quoted number."""
    assert parse_yaml("[2026-01-31, 2026-13-45, '0123', \"no\"]") == ["2026-01-31", "2026-13-45", "0123", "no"]


@given(
    st.one_of(any_text(max_size=30), st.text(st.sampled_from("autonmymdelis:{}[]&*!|>'\"# \n\t-?,0.%@`~"), max_size=30))
)
def test_any_text_is_settings_or_a_settings_error(text: str) -> None:
    """A broken file ends a start with a message, never with a traceback."""
    try:
        parse_settings(text)
    except SettingsError as error:
        said = str(error)
    else:
        said = "minifram.yaml"
    assert said.startswith("minifram.yaml")


def test_a_file_is_read_by_name(tmp_path: Path) -> None:
    """Its path stands in every message."""
    path = tmp_path / "minifram.yaml"
    path.write_text("autonomy: frozen\n")
    assert read_settings(str(path)).autonomy == "frozen"
    path.write_text("autonomie: frozen\n")
    with pytest.raises(SettingsError, match=f"{path}: unknown key autonomie; did you mean autonomy"):
        read_settings(str(path))


def test_a_file_that_cannot_be_read_is_a_settings_error(tmp_path: Path) -> None:
    """Missing, a directory, not UTF-8: the message names the file and the way out."""
    (tmp_path / "latin").write_bytes(b"autonomy: fr\xf6zen\n")
    for name in ("missing", "", "latin"):
        with pytest.raises(SettingsError, match=rf"settings {tmp_path}/{name} cannot be read .*an empty file"):
            read_settings(f"{tmp_path}/{name}")

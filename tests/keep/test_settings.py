"""The PM's settings: what is written is meant, and what cannot be meant is refused by name; which models are called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host.model_reach import is_inner, problem_in_sandbox
from infra.keep.settings.check import SettingsError, checked, parse_settings, read_settings, settings_of_web_door
from infra.keep.settings.models import KEYS, PROVIDERS, Choice, choices, keys_needed, model_words
from infra.keep.settings.schema import ModelSettings, NextModel, Price, Settings, runner_limits
from infra.shared.yaml_words import MAX_DEPTH, words_of
from tests.shared.rows import any_text, each_row


@each_row(
    "text",
    ["", "\n", "# nothing yet\n", "---\n", "---\n...\n", "\ufeff", "limits:\nmodel:\n", "model: {prices: , name: ~}"],
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
limits: {run_steps: 7, bash_seconds: 0.5, log_bytes: 90000}
"""
    got = parse_settings(text)
    assert (got.sandbox, got.autonomy, got.model.provider, got.model.name) == ("podman", "propose", "anthropic", "1.10")
    assert got.model.prices == {"1.10": Price(input=3.0, output=15.5, cache_read=0.0)}
    assert got.budget.daily_usd == 1.5
    limits = runner_limits(got)
    assert (limits.run_steps, limits.bash_seconds, got.limits.log_bytes) == (7, 0.5, 90_000)


def test_a_variable_wins_over_the_file_and_is_named_when_it_is_wrong() -> None:
    set_ = {"BROWSER_POOL_SIZE": "3", "AGENT_GHOST_ENABLED": "true", "AGENT_GHOST_VISION_PROVIDER": "openai"}
    web = parse_settings("web: {pool_size: 2, browser: on}", environ=set_).web
    assert (web.pool_size, web.browser, web.ghost.enabled, web.ghost.vision_provider) == (3, "on", True, "openai")
    wrong = {"BROWSER_STREAM_QUALITY": "90", "AGENT_GHOST_ENABLED": "perhaps"}
    with pytest.raises(SettingsError, match=r"(?s)BROWSER_STREAM_QUALITY is '90'.*AGENT_GHOST_ENABLED is 'perhaps'"):
        parse_settings("web: {browser: on}", environ=wrong)
    assert parse_settings("", environ=wrong) == Settings()


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
  then: [{provider: ollama, max_tokens: 0}]
protected: {branches: ['', 'pm/*', '..']}
web: {package_hosts: [one.example, 'a b', 'c d']}
budget: 3
"""
    with pytest.raises(SettingsError) as refused:
        parse_settings(text, "my.yaml")
    lines = str(refused.value).splitlines()
    starts = ["unknown key sandbx", "autonomy is 'full'", "limits.run_steps is 'ten'", "limits.bash_seconds is '0'"]
    starts += ["model.prices.n.output is missing", "model.then.1.max_tokens is '0'"]
    starts += ["protected.branches.1:", "protected.branches.3:", "web.package_hosts.2:", "web.package_hosts.3:"]
    starts += ["budget must be a mapping"]
    assert len(lines) == len(starts)
    for line, start in zip(lines, starts, strict=True):
        assert line.startswith(f"my.yaml: {start}")


@each_row(
    "text, words",
    [
        ("[]", "the file must be a mapping of keys to values, found []"),
        ("limits", "the file must be a mapping of keys to values, found 'limits'"),
        ("model: {prices: {m: }}", "model.prices.m.input is missing"),
        ("model: {prices: [1]}", "model.prices is ['1']; expected `object`, got `array`"),
        ("web: {allowed_domains: ['https://a.org']}", "web.allowed_domains.1: 'https://a.org' is an address"),
        ("egress: {mode: closed}", "egress.mode is 'closed'; expected one of open, door"),
        ("web: {package_hosts: ['*.pypi.org']}", "web.package_hosts.1: '*.pypi.org' begins with a wildcard"),
        ("web: {package_hosts: ['0x7f000001']}", "web.package_hosts.1: '0x7f000001' is an address"),
        ("web: {package_hosts: [a.org, pypi]}", "web.package_hosts.2: 'pypi' is a single word"),
        ("web: {search_url: 'https://s.org/?q='}", "web.search_url: 'https://s.org/?q=' must hold {query}"),
        ("web: {search_url: 'https://{query}/'}", "web.search_url: 'https://{query}/' must hold {query}"),
        (
            "web: {search_url: 'https://me:pw@s.org/{query}'}",
            "web.search_url: 'https://me:pw@s.org/{query}' holds a user",
        ),
        ("web: {search_url: 'file:///{query}'}", "web.search_url: 'file:///{query}' is no http or https"),
        ("web: {search_url: 'https://[x/{query}'}", "web.search_url: 'https://[x/{query}' is not an address"),
        ("web: {taints: no}", "web.taints is 'no'; expected `bool`"),
        ("autonomy: merg", "autonomy is 'merg'; expected one of merge, propose, frozen"),
        ("autonomy: no", "autonomy is 'no'; expected one of merge, propose, frozen"),
        ("autonomy: [merge]", "autonomy is ['merge']; expected one of merge, propose, frozen"),
        ("sandbox: ~", "sandbox is nothing; expected one of podman, process"),
        ("notify: {on: [done, noon]}", "notify.on.2 is 'noon'; expected one of approval, stopped"),
        ("model: {provider: gemini}", "model.provider is 'gemini'; expected one of auto, scripted, anthropic, openai"),
        (
            "model: {provider: openai, then: [{provider: openai, base_url: 'https://o.org'}]}",
            "model.then: OPENAI_API_KEY would go to two servers, https://api.openai.com/v1 and https://o.org; give",
        ),
        ("model: {then: 3}", "model.then is '3'; expected `array`, got `str`"),
        ("model: {then: [{}]}", "model.then.1.provider is missing"),
        ("model: {then: [{provider: auto}]}", "model.then.1.provider is 'auto'; expected one of scripted, anthropic"),
        ("model: {then: [{provider: ollama, nam: x}]}", "unknown key model.then.1.nam; did you mean"),
        ("model: {then: [{provider: ollama, max_tokens: 0}]}", "model.then.1.max_tokens is '0'; expected `int` >= 1"),
        (f"model: {{then: [{'{provider: ollama}, ' * 9}]}}", "model.then is [{'provider': 'ollama'}"),
        ("model: {max_tokens: ~}", "model.max_tokens is nothing; expected `int`, got `null`"),
        ("model: {name: [x]}", "model.name is ['x']; expected `str | null`, got `array`"),
        *(
            (f"limits: {{run_steps: {word}}}", f"limits.run_steps is '{word}'; expected `int`")
            for word in ("ten", "1.5", "0123", "0x10", "0b11", "1:30", "yes", "0", "-1", "9" * 21)
        ),
        *(
            (f"limits: {{run_seconds: {word}}}", f"limits.run_seconds is '{word}'; expected `float`")
            for word in ("1:30.5", "no", "0", "-1", ".inf", "nan", "inf", "1e12")
        ),
        ("model: {prices: {m: {input: -1, output: 1}}}", "model.prices.m.input is '-1'; expected"),
        ("model: {prices: {m: {input: nan, output: 1}}}", "model.prices.m.input is 'nan'; expected"),
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
        ("autonomy: merge\nautonomy: frozen", "line 2: the key autonomy is given twice"),
        ("limits: {run_steps: 1, run_steps: 1}", "line 1: the key run_steps is given twice"),
        ("model: &m {name: x}", "line 1: anchors (&) and aliases (*) are not understood"),
        ("model: *m", "line 1: anchors (&) and aliases (*) are not understood"),
        (
            "model: !!python/object/apply:os.system [id]",
            "line 1: the tag tag:yaml.org,2002:python/object/apply:os.system",
        ),
        ("model: !!int x", "line 1: the tag tag:yaml.org,2002:int"),
        ("<<: {autonomy: frozen}", "unknown key <<"),
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


def test_every_scalar_is_a_word() -> None:
    """Also a number, a date that no calendar has, and what YAML 1.1 takes for a truth; what is left out is nothing."""
    given = "{a: 0123, b: 2026-13-45, on: no, c: 1.10, d: '', e: , f: ~, g: 'null'}"
    expected = {"a": "0123", "b": "2026-13-45", "on": "no", "c": "1.10", "d": "", "e": None, "f": None, "g": "null"}
    assert words_of(given) == expected


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


OF_WEB = """
model: {name: a-name}
notify: {command: 'curl https://example.org/a-key', on: [done]}
policy:
  default: ask
  private_networks: allow
  rules:
    - {do: deny, domains: [bad.example, 203.0.113.0/24], why: "no: it's # 'odd'\\u00e9 \\t"}
    - {do: allow, tools: [fetch_page], effects: [read], commands: ['git *'], paths: ['*.md']}
web: {allowed_domains: ['example.org', 'xn--bcher-kva.example'], keep_raw_html: true,
  search_url: 'https://s.example/?q={query}&format=json', package_hosts: [pypi.org]}
"""


def test_the_web_door_is_given_as_much_as_it_works_with(tmp_path: Path) -> None:
    """Policy and web as the PM wrote them, and nothing else."""
    path = tmp_path / "minifram.yaml"
    path.write_text(OF_WEB)
    whole, given = read_settings(str(path)), parse_settings(settings_of_web_door(str(path)).decode())
    assert (given.policy, given.web) == (whole.policy, whole.web)
    assert (given.notify.command, given.model.name) != (whole.notify.command, whole.model.name)
    assert b"a-key" not in settings_of_web_door(str(path))
    path.write_text("web: {keep_raw_html: perhaps}\n")
    with pytest.raises(OSError, match="keep_raw_html"):
        settings_of_web_door(str(path))


ANTHROPIC, OPENAI = KEYS


@each_row("keys, provider", [((), "scripted"), ((OPENAI,), "openai"), ((ANTHROPIC,), "anthropic"), (KEYS, "anthropic")])
def test_auto_is_settled_by_the_keys(keys: tuple[str, ...], provider: str) -> None:
    """Claude before OpenAI before the script; and the key of the one that was found is needed, no other."""
    model = ModelSettings()

    assert choices(model, keys)[0].provider == provider
    assert keys_needed(model, keys) == tuple(key for key in [PROVIDERS[provider].key] if key)


def test_an_address_beside_auto_is_claude_s_alone() -> None:
    """OpenAI's key never goes to a gateway that is Claude's, nor is its model asked there by Claude's name."""
    model = ModelSettings(name="claude-x", base_url="https://claude.example.org")

    assert choices(model, (OPENAI,))[0][:3] == ("openai", "gpt-6.1-terra", "https://api.openai.com/v1")
    assert choices(model, ())[0][:3] == ("scripted", "demo", "")
    assert choices(model, KEYS)[0][:3] == ("anthropic", "claude-x", "https://claude.example.org")
    assert choices(ModelSettings(name="gpt-x"), (OPENAI,))[0].name == "gpt-x", "a name alone is for whoever is found"


@each_row(
    "first, then, told",
    [
        (("openai", None), [("openai", "https://other.org/v1")], [("OPENAI", "api.openai.com", "other.org")]),
        (("openai", "https://a.org"), [("openai", "https://a.org:8443")], [("OPENAI", "a.org", "a.org:8443")]),
        (("anthropic", "https://[bad"), [("anthropic", None)], [("ANTHROPIC", "[bad", "api.anthropic.com")]),
        (("auto", "https://a.org"), [("anthropic", None)], [("ANTHROPIC", "a.org", "api.anthropic.com")]),
        (("auto", None), [("openai", "https://other.org")], [("OPENAI", "api.openai.com", "other.org")]),
        (
            ("openai", "https://u:pass@a.org"),
            [("anthropic", None), ("anthropic", "https://b.org"), ("openai", None)],
            [("ANTHROPIC", "api.anthropic.com", "b.org"), ("OPENAI", "a.org", "api.openai.com")],
        ),
        (("openai", "https://A.org/v1"), [("openai", "https://a.org:443/v2"), ("anthropic", "https://b.org")], []),
        (("ollama", "http://a.lan"), [("ollama", "http://b.lan")], []),
        (("auto", "https://a.org"), [("openai", "https://b.org")], [("OPENAI", "api.openai.com", "b.org", "of auto")]),
    ],
)
def test_one_key_goes_to_one_server(
    first: tuple[str, str | None], then: list[tuple[str, str | None]], told: list[tuple[str, ...]]
) -> None:
    """By scheme, host and port, whichever keys there are; both servers are named, no password is. What has no key may
    be anywhere."""
    raw = {"provider": first[0], "base_url": first[1], "then": [{"provider": p, "base_url": u} for p, u in then]}

    problems: list[str] = []
    checked(raw, ModelSettings, "model", problems)
    assert len(problems) == len(told)
    for words in told:
        assert any(all(word in problem for word in words) for problem in problems), problems
    assert "pass" not in "".join(problems)


def test_what_is_left_out_is_the_provider_s_own() -> None:
    """Name and address by provider, tokens by the first model; in the order of the settings."""
    model = ModelSettings(
        provider="ollama",
        max_tokens=7,
        then=(
            NextModel(provider="openai", max_tokens=8),
            NextModel(provider="anthropic", name="x", base_url="https://y"),
        ),
    )

    assert choices(model, ()) == (
        Choice("ollama", "qwen3", "http://127.0.0.1:11434", 7),
        Choice("openai", "gpt-6.1-terra", "https://api.openai.com/v1", 8, "responses", vision=True),
        Choice("anthropic", "x", "https://y", 7, vision=True),
    )
    assert keys_needed(model, ()) == (OPENAI, ANTHROPIC)
    assert model_words(model, ()) == "ollama qwen3 (then openai gpt-6.1-terra, anthropic x)"


@each_row(
    "given, api",
    [
        ({}, "responses"),
        ({"base_url": "https://API.openai.com:443/v1"}, "responses"),
        ({"base_url": "https://other.org/v1"}, "chat"),
        ({"base_url": "https://other.org/v1", "api": "responses"}, "responses"),
        ({"api": "chat"}, "chat"),
    ],
)
def test_openai_s_own_address_is_spoken_to_by_responses(given: dict[str, Any], api: str) -> None:
    """Any other by what most servers speak, unless the settings say; also as a fallback model."""
    assert choices(ModelSettings(provider="openai", **given), ())[0].api == api
    assert choices(ModelSettings(provider="ollama", then=(NextModel(provider="openai", **given),)), ())[1].api == api


def test_who_takes_images() -> None:
    """A model that almost always does."""
    for provider, sees in (("anthropic", True), ("openai", True), ("ollama", False)):
        assert choices(ModelSettings(provider=provider), ())[0].vision is sees  # type: ignore[arg-type]


INNER = (
    *(
        "127.0.0.1:11434",
        "[::1]:11434",
        "192.168.1.5",
        "169.254.169.254/",
        "[fd00::1]/",
        "localhost:1",
        "gpu:1",
        "gpu.lan",
    ),
    *("gpu.local.", "127.1:8080", "0x7f.1", "2130706433", "0300.0250.1", "[::ffff:10.0.0.1]", "[64:ff9b::a00:1]"),
)
OUTER = ("93.12146", "api.openai.com/v1", "93.184.216.34", "[2606:2800:220:1::1]", "[bad")


def test_an_address_of_this_network_is_told_from_a_public_one() -> None:
    """As far as it can be seen in the address itself."""
    assert [host for host in INNER if not is_inner(f"http://{host}")] == []
    assert [host for host in OUTER if is_inner(f"http://{host}")] == []


def test_the_sealed_container_is_told_what_it_does_not_reach() -> None:
    """A model at a private address; the process sandbox reaches it."""
    ollama = ModelSettings(provider="ollama")

    assert "private address" in (problem_in_sandbox(ollama, "podman") or "")
    short = ModelSettings(provider="ollama", base_url="http://127.1:11434")
    assert "http://127.1:11434 (127.0.0.1), a private address" in (problem_in_sandbox(short, "podman") or "")
    for reached in (ModelSettings(), ModelSettings(provider="openai")):
        assert problem_in_sandbox(reached, "podman") is None
    assert problem_in_sandbox(ollama, "process") is None
    scripted = ModelSettings(provider="scripted", name="/home/pm/script.yaml")
    assert "not in the sealed container" in (problem_in_sandbox(scripted, "podman") or "")
    assert problem_in_sandbox(scripted, "process") is None

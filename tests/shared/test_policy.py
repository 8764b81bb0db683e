"""The PM's policy as settings: what is written reaches the runner, and what is no rule is refused by its number."""

from __future__ import annotations

import msgspec
import pytest

from infra.keep.settings.check import SettingsError, parse_settings
from infra.keep.settings.schema import Settings
from infra.shared.policy import Policy, Rule


def test_rules_come_from_the_file_in_their_order() -> None:
    """With all their conditions; the default policy takes no room in the boot value."""
    text = """
policy:
  default: ask
  private_networks: allow
  rules:
    - {do: allow, effects: [read, write], paths: [src/, '*.md', /tmp/]}
    - do: deny
      tools: [bash]
      commands: ['git push *']
      domains: [pastebin.com, 10.0.0.0/8]
      why: I push
"""
    assert parse_settings(text).policy == Policy(
        "ask",
        "allow",
        (
            Rule("allow", effects=("read", "write"), paths=("src/", "*.md", "/tmp/")),
            Rule("deny", ("bash",), (), ("git push *",), (), ("pastebin.com", "10.0.0.0/8"), "I push"),
        ),
    )
    assert msgspec.json.encode(Settings().policy) == b"{}"


def test_everything_that_is_wrong_with_rules_is_named_at_once() -> None:
    """A line for each problem, with the number of its rule."""
    text = """
policy:
  default: maybe
  rules:
    - {do: ask, effects: [auth]}
    - {do: perhaps, tools: [], effects: [writing]}
    - {tools: ['a b', 3], comands: [x]}
    - {do: deny, tools: [bash]}
    - nonsense
    - {do: deny, commands: ['a  b', '[', ''], paths: [../x, /], domains: ['https://x.org', 10.0.0.300, word]}
"""
    with pytest.raises(SettingsError) as refused:
        parse_settings(text, "my.yaml")
    lines = [line.removeprefix("my.yaml: ").replace("policy.", "") for line in str(refused.value).splitlines()]
    starts = [
        "default is 'maybe'; expected one of allow, ask, deny",
        *(
            "rules.2.do is 'perhaps'",
            "rules.2.tools is []; expected",
            "rules.2.effects.1 is 'writing'; expected one of",
        ),
        *("rules.3.tools.1 is 'a b'; expected the name", "unknown key rules.3.comands", "rules.3.do is missing"),
        "rules.5 must be a mapping",
        *("rules.6.commands.1: 'a  b' is", "rules.6.commands.2: '[' has a '['", "rules.6.commands.3: '' is empty"),
        *("rules.6.paths.1: '../x' is not a path", "rules.6.paths.2: '/' is not a path"),
        *("rules.6.domains.1: 'https://x.org' is an", "rules.6.domains.2: '10.0.0.300' is not an address"),
        "rules.6.domains.3: 'word' is a single word",
    ]
    assert len(lines) == len(starts), lines
    for line, start in zip(lines, starts, strict=True):
        assert line.startswith(start)


def long(why: int, rules: int) -> str:
    return "[" + f"{{do: ask, tools: [a], why: '{'x' * why}'}}," * rules + "]"


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (long(1, 101), "expected `array` of length <= 100"),
        (long(501, 1), r"rules.1.why is .* of length <= 500"),
        (long(400, 61), "at most 16,384"),
        ("[{do: ask, commands: ['" + "x" * 201 + "']}]", "201 characters long; at most 200"),
        ("{do: ask}", "rules is .* expected `array`"),
        ("[{do: ask, tools: [a]}, {do: deny, why: no}]", "rules.2 has no condition"),
        ("[{do: ask, tools: bash}]", "rules.1.tools is 'bash'; expected `array`"),
        ('[{do: ask, commands: ["a\\tb"]}]', "single blanks"),
        ('[{do: ask, commands: ["a\\u202eb"]}]', "cannot be seen"),
    ],
)
def test_rules_are_bounded(rules: str, words: str) -> None:
    """They travel in an environment variable."""
    with pytest.raises(SettingsError, match=words):
        parse_settings(f"policy: {{rules: {rules}}}")


def test_what_a_later_keep_adds_is_passed_over() -> None:
    """But for a rule of which nothing is left that is known: it would hold for every call."""
    text = '{"default": "ask", "new": 1, "rules": [{"do": "deny", "tools": ["bash"], "hours": [1]}]}'
    assert msgspec.json.decode(text, type=Policy) == Policy("ask", rules=(Rule("deny", ("bash",)),))
    for wrong in ('{"rules": [{"do": "allow", "hours": [1]}]}', '{"default": "maybe"}', "[]", "x"):
        with pytest.raises(ValueError, match=r".+"):
            msgspec.json.decode(wrong, type=Policy)

"""The PM's policy as settings: what is written reaches the runner, and what is no rule is refused by its number."""

from __future__ import annotations

from string import ascii_lowercase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.keep.settings import Settings, policy_of, runner_policy
from infra.keep.settings_file import SettingsError, parse_settings
from infra.shared.policy import Policy, Rule, from_text, to_text
from tests.shared.texts import any_text

WORDS = st.lists(st.text(ascii_lowercase, min_size=1, max_size=8), max_size=3).map(tuple)
RULES = st.builds(
    Rule,
    st.sampled_from(["allow", "ask", "deny"]),
    st.just(("bash",)),
    st.sampled_from([(), ("read",), ("write", "auth")]),
    WORDS,
    WORDS,
    st.sampled_from([(), ("pypi.org",), ("10.0.0.0/8", "::1")]),
    any_text(max_size=20),
)


@given(st.builds(Policy, st.sampled_from(["allow", "ask"]), st.just("allow"), st.lists(RULES, max_size=4).map(tuple)))
def test_what_the_keep_writes_the_runner_reads(policy: Policy) -> None:
    """Every rule comes back as it was."""
    assert from_text(to_text(policy)) == policy


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
    assert policy_of(parse_settings(text)) == Policy(
        "ask",
        "allow",
        (
            Rule("allow", effects=("read", "write"), paths=("src/", "*.md", "/tmp/")),
            Rule("deny", ("bash",), (), ("git push *",), (), ("pastebin.com", "10.0.0.0/8"), "I push"),
        ),
    )
    assert from_text(runner_policy(parse_settings(text))) == policy_of(parse_settings(text))
    assert runner_policy(Settings()) == ""
    assert from_text("") == Policy()


def test_everything_that_is_wrong_with_rules_is_named_at_once() -> None:
    """A line for each problem, with the number of its rule."""
    text = """
policy:
  default: maybe
  rules:
    - {do: ask, effects: [auth]}
    - {do: perhaps, tools: [], effects: [writing]}
    - {tools: ['a b', 3], comands: [x]}
    - {do: deny}
    - nonsense
    - {do: deny, commands: ['a  b', '[', ''], paths: [../x, /], domains: ['https://x.org', 10.0.0.300, word]}
    - {do: deny, tools: [bash], why: 3}
"""
    with pytest.raises(SettingsError) as refused:
        parse_settings(text, "my.yaml")
    lines = [line.removeprefix("my.yaml: policy.") for line in str(refused.value).splitlines()]
    starts = [
        *("default is 'maybe'", "rules: rule 2: do is 'perhaps'", "rules: rule 2: tools: expected a list"),
        *("rules: rule 2: effects: 'writing' is not a class", "rules: rule 3: unknown key 'comands'"),
        *(
            "rules: rule 3: do is missing",
            "rules: rule 3: tools: 'a b' is not a name",
            "rules: rule 3: tools: 3 is not a word",
        ),
        *("rules: rule 4: has no condition", "rules: rule 5: must be a mapping", "rules: rule 6: commands: 'a  b' is"),
        *(
            "rules: rule 6: commands: '[' has a '['",
            "rules: rule 6: commands: '' is empty",
            "rules: rule 6: paths: '../x'",
        ),
        *("rules: rule 6: paths: '/' is not a path", "rules: rule 6: domains: 'https://x.org' is an address"),
        *("rules: rule 6: domains: '10.0.0.300' is not an address", "rules: rule 6: domains: 'word' is a single word"),
        "rules: rule 7: why is 3",
    ]
    assert len(lines) == len(starts), lines
    for line, start in zip(lines, starts, strict=True):
        assert line.startswith(start)


def long(why: int, rules: int) -> str:
    return "[" + f"{{do: ask, tools: [a], why: '{'x' * why}'}}," * rules + "]"


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (long(1, 101), "rules has 101 rules; at most 100"),
        (long(501, 1), "rule 1: why is"),
        (long(400, 61), "at most 16,384"),
        ("[{do: ask, commands: ['" + "x" * 201 + "']}]", "201 characters long; at most 200"),
        ("{do: ask}", "rules must be a list"),
        ("", "rules must be a list"),
        ("[{do: ask, tools: bash}]", "rule 1: tools: expected a list"),
        ('[{do: ask, commands: ["a\\tb"]}]', "single blanks"),
        ('[{do: ask, commands: ["a\\u202eb"]}]', "cannot be seen"),
    ],
)
def test_rules_are_bounded(rules: str, words: str) -> None:
    """They travel in an environment variable."""
    with pytest.raises(SettingsError, match=words):
        parse_settings(f"policy: {{rules: {rules}}}")

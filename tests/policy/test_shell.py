"""The commands that a small lexer sees in a shell's text."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.policy.shell import MAX_CHARS, bare, script_of

R = ("rm", "x")


@pytest.mark.parametrize(
    "text",
    [
        *("rm x", "a; rm x", "a && rm x", "a || rm x", "a | rm x", "a |& rm x", "a & rm x", "a\nrm x", "(rm x)"),
        *("( (rm x); )", "echo $(rm x)", "echo `rm x`", 'echo "$(rm x)"', 'echo "`rm x`"', "diff <(rm x) b"),
        *("echo ${a:-$(rm x)}", "if true; then rm x; fi", "while rm x; do :; done", "! rm x", "{ rm x; }"),
        *("f() { rm x; }", "case a in a) rm x;; esac", "A=1 rm x", "sudo -n rm x", "env A=1 rm x", "nohup /bin/rm x"),
        *("timeout -k 1 5s rm x", "2>/dev/null rm x", "> o rm x", "r'm' x", 'r"m" "x"', "\\rm x", "$'\\x72m' x"),
        *("rm   \\\n x", "bash -c 'rm x'", 'sh -ec "a; rm x"', "eval rm x", "echo $(echo $(rm x))"),
        *("bash -c \"bash -c 'rm x'\"", "echo `echo \\`rm x\\``", "a # b\nrm x", "echo a#b; rm x"),
        *("cat <<E\n$(rm x)\nE", "cat <<E\na\nE\nrm x", "cat <<-E\n\tE\nrm x", "cat <<E\nrm x"),
        *("echo $((1<<2))\nrm x\n2", "a 2>&1; rm x", "a &>f; rm x", "a <<< b; rm x", "a=(1 2); rm x"),
    ],
)
def test_a_command_is_seen_wherever_it_stands(text: str) -> None:
    """In lists, pipelines, groups, substitutions and inner shells; behind what only starts it; through quotes."""
    script = script_of(text)
    assert R in [bare(part.words) for part in script.parts]
    assert script.whole


@pytest.mark.parametrize(
    "text",
    [
        *("echo 'a; rm x'", 'echo "; rm x"', "echo a \\; rm x", "# rm x", "echo rm x"),
        *("cat <<'E'\n$(rm x)\nE", "cat <<E\nrm x\nE"),
    ],
)
def test_what_is_only_text_is_no_command(text: str) -> None:
    """Quotes, comments and the bodies of here-documents."""
    assert R not in [bare(part.words) for part in script_of(text).parts]


@pytest.mark.parametrize(
    "text",
    ["echo 'a", 'echo "a', "echo $(a", "echo `a", "$'a", "(" * 40, "a" * (MAX_CHARS + 1), "a;" * 2000, "<<E\n" * 99],
)
def test_what_cannot_be_taken_apart_is_said(text: str) -> None:
    """An open quote or bracket, too deep, too long."""
    assert not script_of(text).whole


@settings(max_examples=80, deadline=None)
@given(st.text("ab '\"\\`$(){}<>&|;\n#-E01", max_size=60))
def test_no_text_breaks_it(text: str) -> None:
    """It always comes to its end."""
    script_of(text)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.lists(st.text("ab '\"\\$`;&|#*\n(){}<>~!=", max_size=6), min_size=1, max_size=3), min_size=1, max_size=3
    )
)
def test_words_are_those_that_bash_would_see(commands: list[list[str]]) -> None:
    """What shlex quotes, bash and the lexer read back alike."""
    text = "; ".join(shlex.join(["printf", "%s\\0", *words]) for words in commands)
    said = subprocess.run(["bash", "-c", text], capture_output=True, check=True).stdout
    seen = [word for part in script_of(text).parts for word in part.words[2:]]
    assert said.decode().split("\0")[:-1] == seen

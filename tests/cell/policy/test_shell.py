"""The commands that a small lexer sees in a shell's text."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.cell.policy.shell import MAX_CHARS, script_of
from infra.cell.policy.words import bare

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
        *("cat <<E\n$(rm x)\nE", "cat <<E\na\nE\nrm x", "cat <<-E\n\tE\nrm x"),
        *('$"rm" x', ">| o rm x", "{fd}>o rm x", "&>o rm x", "<<<a rm x", "echo \\>& rm x", "bash -c >o 'rm x'"),
        *(
            "eval -- 'rm x'",
            "bash -c -- 'rm x'",
            "bash -c -e 'rm x'",
            "bash -co pipefail 'rm x'",
            "$'\\U00000072m\\0z' x",
        ),
        *("find . -exec sh -c 'rm x' \\;", "a 2>&1; rm x", "a &>f; rm x", "a <<< b; rm x", "a=(1 2); rm x"),
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


@pytest.mark.parametrize(
    "text",
    [
        *("cat <<$'E'\nE\nrm x\n$E\n", "cat <<E\nE\\\n\nrm x\nE\n", "echo ${x:1<<E}\nrm x\nE}\n", "a <<E'F'\nEF\n"),
        *("echo $[1<<E]\nrm x\nE]\n", "echo $((1<<E))\nrm x\nE))\n", "((1<<E))\nrm x\nE))", "[[ 1<<E ]]\nrm x\nE"),
        *("a[1<<E]=2\nrm x\nE]=2\n", "((cat <<E) ; a)\n'\nE\nrm x #'", "cat <<E\nrm x", "cat <\\\n<E\n'\nE\nrm x\n#'"),
        *(
            "x=$(cat <<E\n'\nE)\nrm x\n#'\nE\n)",
            "(cat <<E)\n'\nE\nrm x #'",
            "echo ${x:- # } ; rm x",
            "echo $${'; rm x '}",
        ),
        *(
            """echo "${x:-"'"}"; rm x; echo "'" #\"""",
            """echo "$(case x in x) echo;; esac; rm x)\"""",
            "a[1 #]=3; rm x",
        ),
        *("echo $$'\\'; rm x; echo '...'", """echo "`echo \\"'\\"; rm x; echo \\"'\\"`\"""", "((1 #2)); rm x\n))"),
        *("[[ a =~ ( #) ]]; rm x\n)", "cat <<E $(a\n)\nrm x\nE\n"),
    ],
)
def test_what_bash_may_read_otherwise_is_in_doubt(text: str) -> None:
    """By other rules within a parameter, arithmetic, a test, a subscript; here-documents that are not plain."""
    assert not script_of(text).whole


@pytest.mark.parametrize(
    "text",
    [
        *(
            "cat <<E | sort >o\n'${a}' $(b)\nE\nls",
            "cat <<'E' && ls\n\\\nE",
            'cat > o <<-"E"\n\ta\n\tE',
            "cat <<\\E\nE",
        ),
        *('for a in "${b[@]}"; do echo "${a##*/}" ${#a} ${a:-"x y"} "${a:-$(b "c")}"; done', "x=$(cat <<E\na)\nE\n)"),
        *("[[ $a == b && -n $c ]] || exit 1 # no", "for ((i = 0; i < 3; i++)); do echo $((i * 2)); done", "kill $$"),
        *(
            "a \\\n  --b \\\n  | c",
            "case $a in b) c;; *) d;; esac",
            "awk '{print $1}' < a 2>&1 >| b",
            "a &>> b; c |& d",
        ),
        *("if ! grep -q '[[' a; then b; fi", 'git commit -m "$(cat <<\'E\'\nIt\'s "done"\nE\n)"', "a <<< $b; c=(1 2)"),
    ],
)
def test_usual_commands_are_in_no_doubt(text: str) -> None:
    """Here-documents, parameters, arithmetic, tests and redirections as they are written every day."""
    assert script_of(text).whole


def test_a_carriage_return_is_no_blank() -> None:
    """To bash it is a letter, so no comment begins behind it."""
    assert R in [bare(part.words) for part in script_of("echo \r# ; rm x").parts]


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

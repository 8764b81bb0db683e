"""Requirements files: one meaning for all ways to write it, and nothing that could mean something else tomorrow."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.keep.environments.requirements import (
    MAX_BYTES,
    BadRequirements,
    fingerprint,
    this_runtime,
    understand,
    wheel_name,
)

HASH = "--hash=sha256:" + "0a" * 32


@pytest.mark.parametrize(
    "line",
    [
        "alpha",
        "alpha.zipper==1.0",
        "alpha-whl",
        "alpha==1.0",
        "Alpha.beta_c-d >= 1.0, < 2, != 1.5.*",
        "alpha (>=1.0)",
        "alpha[fast,safe]~=1.2",
        "alpha == 1.0 ; python_version >= '3.8' and sys_platform == \"linux\"",
        f"alpha==1.0+local {HASH} {HASH}",
        "alpha===1.0",
    ],
)
def test_packages_are_taken(line: str) -> None:
    """A name with extras, versions, a marker and hashes is what a requirements file is made of."""
    wanted = understand(line.encode(), "requirements.txt")
    assert wanted.text == f"{line}\n"
    assert wanted.hashed == (HASH in line)


@pytest.mark.parametrize(
    "option",
    [
        "-i https://example.org/simple",
        "--index-url http://127.0.0.1:8000/simple/",
        "--extra-index-url=https://example.org/simple",
        "--trusted-host example.org:8000",
        "--pre",
        "--require-hashes",
    ],
)
def test_where_packages_come_from_may_be_said(option: str) -> None:
    """The options that name an index stay, in front, in their order; without a package they ask for nothing."""
    assert understand(f"beta\nalpha\n{option}\n".encode(), "r").text == f"{option}\nalpha\nbeta\n"
    assert understand(f"{option}\n".encode(), "r").text == ""


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("-r other.txt", "another file is included"),
        ("-rother.txt", "another file is included"),
        ("--requirement=other.txt", "another file is included"),
        ("--pre -r other.txt", "another file is included|this option is not taken"),
        ("-c limits.txt", "another file constrains"),
        ("-e .", "an editable install"),
        ("--editable=src", "an editable install"),
        ("-f /tmp/wheels", "this option is not taken; only --index-url"),
        ("--find-links=https://example.org", "this option is not taken"),
        ("--no-binary :all:", "this option is not taken"),
        ("--index-url file:///tmp/simple", "this option is not taken"),
        ("--index-url https://a.org 'b'", "this option is not taken"),
        ("--index https://a.org", "this option is not taken"),
        ("--trusted-host --pre", "this option is not taken"),
        (".", "a path"),
        ("./src", "a path"),
        ("../alpha-1.0.whl", "a path"),
        ("alpha/", "a path"),
        ("alpha @ https://example.org/alpha.whl", "an address"),
        ("git+https://example.org/alpha", "an address"),
        ("file:alpha", "no package and version"),
        ("alpha==${VERSION}", "a variable"),
        ("--index-url https://${USER}@example.org", "a variable"),
        ("alpha==1.0 --global-option=x", "an option that is not a --hash"),
        ("alpha==1.0 --hash=md5:00", "an option that is not a --hash"),
        ("alpha==1.0 -r other", "an option that is not a --hash"),
        ("alpha; python_version > '3' -r other", "an option that is not a --hash"),
        ("alpha -e .", "an option that is not a --hash"),
        ("alpha beta", "no package and version"),
        ("==1.0", "no package and version"),
        ("alpha.tar.gz", "the name of an archive"),
        ("alpha-1.0-py3-none-any.whl", "the name of an archive"),
        ("Alpha.ZIP [x]; python_version > '3'", "the name of an archive"),
        ("alpha.tar.lzma[x] --hash=sha256:00", "the name of an archive"),
        ("alpha==1.tgz", "the name of an archive"),
        ("alpha\x0c-r other", "cannot be printed"),
        ("alpha\u2028-r other", "cannot be printed"),
        ("alpha\r-r other", "cannot be printed"),
        ("alpha\0", "cannot be printed"),
    ],
)
def test_what_could_change_its_meaning_is_refused(line: str, words: str) -> None:
    """Files, directories, addresses, variables and unknown options are refused by line, with what to do."""
    with pytest.raises(BadRequirements, match=words) as refused:
        understand(f"alpha\n\n{line}\n".encode(), "requirements.txt")
    assert str(refused.value).startswith("requirements.txt, line 3: ")


def test_bytes_that_are_no_text_are_refused() -> None:
    """Another encoding is no guess of ours, nor is a line that claims one; a mark of UTF-8 is fine."""
    with pytest.raises(BadRequirements, match=r"not UTF-8 \(byte 5\)"):
        understand(b"alpha\xff", "r")
    with pytest.raises(BadRequirements, match="over 1048576 bytes"):
        understand(b"#" * (MAX_BYTES + 1), "r")
    assert understand(b"#" * MAX_BYTES, "r").text == ""
    assert understand("\ufeff# coding: utf-7\nalpha".encode(), "r").text == "alpha\n"


def test_a_lock_file_is_understood() -> None:
    """Continued lines, comments after and between, as lock files have them."""
    lock = f"""
# made by a tool
typing-extensions==4.0 \\
    {HASH} \\
    {HASH}
    # via alpha
alpha==1.0 {HASH}  # first
beta==1.0 \\
# a comment ends it
"""
    wanted = understand(lock.encode(), "requirements.lock")
    assert wanted.text == f"alpha==1.0 {HASH}\nbeta==1.0\ntyping-extensions==4.0 {HASH} {HASH}\n"
    assert wanted.packages == {"alpha", "beta", "typing_extensions"}
    with pytest.raises(BadRequirements, match="line 4: '-r other'"):
        understand(b"alpha \\\n  ==1.0\n\n-r \\\nother", "requirements.lock")


lines = st.lists(
    st.from_regex(r"[a-z][a-z0-9-]{0,5}[a-z](==[0-9]\.[0-9])?( --hash=sha256:[0-9a-f]{8})?", fullmatch=True), min_size=1
)
noise = st.sampled_from(["", "   ", "# alpha", "\t# -r other", "#"])


@given(lines, st.randoms(), st.lists(noise), st.sampled_from(["\n", "\r\n"]))
def test_comments_blanks_and_order_change_nothing(
    packages: list[str], chance: st.DataObject, others: list[str], end: str
) -> None:
    """Files that ask for the same have one form, and so one environment."""
    mixed = [*packages, *others]
    chance.shuffle(mixed)  # type: ignore[attr-defined]
    written = [line.replace("==", "\t ==  ").replace(" --", " \\" + end + " --") + "  # why" for line in mixed]
    wanted = understand("\n".join(packages).encode(), "r")
    spaced = understand(end.join(written).encode(), "r")
    assert re.sub(r" ?== ?", "==", spaced.text) == wanted.text
    assert understand(end.join(mixed).encode(), "r") == wanted
    assert wanted.packages == {wheel_name(re.split("[= ]", line)[0]) for line in packages}


@given(st.binary() | st.text(alphabet="ab=-r .#\\\n\t@/:$;[]<>1'\"").map(str.encode))
def test_any_bytes_are_understood_or_refused(content: bytes) -> None:
    """Nothing else can happen; and what was understood says the same when it is read again."""
    try:
        wanted = understand(content, "r")
    except BadRequirements:
        return
    assert understand(wanted.text.encode(), "r") == wanted
    assert all(line.isprintable() for line in wanted.text.split("\n"))


def test_the_hash_tells_what_an_environment_depends_on() -> None:
    """Another package or another interpreter is another environment."""
    one, other = understand(b"alpha", "r"), understand(b"beta", "r")
    hashes = {
        fingerprint(one, "3.11"),
        fingerprint(other, "3.11"),
        fingerprint(one, "3.12"),
        fingerprint(one, this_runtime()),
    }
    assert len(hashes) == 4
    assert fingerprint(one, "3.11") == fingerprint(understand(b"# same\nalpha", "r"), "3.11")

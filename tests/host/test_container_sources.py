"""Where the base's packages come from, and which wheels go into the image: words made from what the machine has."""

from __future__ import annotations

import pytest

from host.container import apt_sources, base, wheels

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
STANZAS = f"""\
Types: deb deb-src
# the mirror of this house
URIs: http://mirror.invalid/debian http://second.invalid/debian
Suites: bookworm bookworm-updates
Components: main
  contrib
Signed-By: {KEYRING}

Types: deb
URIs: http://mirror.invalid/debian-security
Suites: bookworm-security
Components: main
Enabled: yes

Types: deb
URIs: http://mirror.invalid/debian
Suites: bookworm-backports
Components: main
Enabled: no
"""
LINES = """\
# deb http://commented.invalid/debian bookworm main
deb [arch=amd64 signed-by=/k.gpg] http://one.invalid/debian bookworm main non-free  # ours
deb-src http://one.invalid/debian bookworm main
deb http://other.invalid/apt cloud-bookworm main
deb http://other.invalid/apt bookworm stable
deb http://other.invalid/apt bookworm-pgdg main
"""


def test_stanzas_and_lines_are_read_alike() -> None:
    """Only Debian's own suites, their component main, with the key that signs them."""
    assert apt_sources.lines({"debian.sources": STANZAS}, "bookworm", "bookworm") == [
        f"deb [signed-by={KEYRING}] http://mirror.invalid/debian bookworm main",
        f"deb [signed-by={KEYRING}] http://mirror.invalid/debian bookworm-updates main",
        f"deb [signed-by={KEYRING}] http://second.invalid/debian bookworm main",
        f"deb [signed-by={KEYRING}] http://second.invalid/debian bookworm-updates main",
        "deb http://mirror.invalid/debian-security bookworm-security main",
    ]
    assert apt_sources.lines({"sources.list": LINES}, "bookworm", "bookworm") == [
        "deb [signed-by=/k.gpg] http://one.invalid/debian bookworm main"
    ]


def test_a_machine_of_another_release_gives_its_mirror() -> None:
    """The base is Debian 12 wherever it is made."""
    newer = STANZAS.replace("bookworm", "trixie")
    assert apt_sources.lines({"d.sources": newer}, "trixie", "bookworm") == apt_sources.lines(
        {"d.sources": STANZAS}, "bookworm", "bookworm"
    )


@pytest.mark.parametrize(
    "files", [{}, {"a.list": ""}, {"a.sources": "\n\n"}, {"a.list.disabled": LINES}, {"a.sources": "Types: deb\n"}]
)
def test_a_machine_without_debian_s_sources_gives_none(files: dict[str, str]) -> None:
    """mmdebstrap then knows itself where Debian is."""
    assert apt_sources.lines(files, "bookworm", "bookworm") == []


def test_mmdebstrap_needs_no_root_and_leaves_no_trace_of_where_it_ran() -> None:
    """Sources come on stdin and are not in the result."""
    words = base.mmdebstrap_words("/cache/base.tar")

    assert "--mode=unshare" in words
    assert words[-3:] == ["bookworm", "/cache/base.tar", "-"]
    assert any("sources.list" in word and word.startswith("--customize-hook=rm") for word in words)


def test_wheels_are_those_that_the_image_s_python_can_use() -> None:
    """Whatever Python and machine fetch them: only wheels, only as locked, for Python 3.11 and Debian 12's glibc."""
    words = wheels.fetch_words("/p/requirements.lock", "/cache/new", "aarch64")

    assert {"--require-hashes", "--only-binary=:all:", "--no-deps", "--python-version=3.11"} <= set(words)
    platforms = [word.partition("=")[2] for word in words if word.startswith("--platform")]
    assert platforms[0] == "manylinux_2_36_aarch64"
    assert "manylinux2014_aarch64" in platforms
    assert not any("2_37" in platform for platform in platforms)

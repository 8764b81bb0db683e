"""Two versions of a file: no section of either side is lost, and the shared branch's text stands."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from infra.cell.mind.merge import KeptSection, merge_texts
from infra.shared.mind.sections import document_of
from tests.shared.rows import each_row

A, B, C = "## B-000001\nClaim: a\n\n", "## B-000002\nClaim: b\n\n", "## B-000003\nClaim: c\n"
HEAD = "# Beliefs\n\nNext: B-{:06d}\n\n"


@each_row(
    "base, ours, theirs, text, kept",
    [
        (A + B, A + B + C, A.replace("a", "A") + B, A.replace("a", "A") + B + C, []),
        (A + B, A + B.replace("b", "x"), A + B.replace("b", "y"), A + B.replace("b", "y"), ["B-000002"]),
        (A + B, A, A.replace("a", "A") + B, A.replace("a", "A"), []),
        (A + B, A + B.replace("b", "x"), A, A, ["B-000002"]),  # taken out by the PM, changed here
        (A + B, A, A + B.replace("b", "y"), A + B.replace("b", "y"), []),
        (None, A + C, A + B, A + C + "\n" + B, []),
        (None, A.replace("a", "x") + C, A + B, A + C + "\n" + B, ["B-000001"]),
        (HEAD.format(3) + A, HEAD.format(9) + A + B, HEAD.format(4) + C, HEAD.format(9) + B + C, []),
        ("x\n" + A, "y\n" + A, "z\n" + A, "z\n\n" + A, [""]),
        (A, A + B + "```\n", A + C, A + C, ["*"]),  # its block would swallow what follows
    ],
)
def test_what_stands_and_what_is_kept(base: str | None, ours: str, theirs: str, text: str, kept: list[str]) -> None:
    merged = merge_texts(base, ours, theirs)
    assert merged.text == text
    assert [each.id for each in merged.kept] == kept


_parts = st.lists(
    st.tuples(st.sampled_from(["B-1", "B-2", "B-3", "B-4", "plain words"]), st.sampled_from(["x", "y", "```\nz", ""])),
    max_size=5,
).map(lambda parts: "".join(f"## {id}\n{text}\n" for id, text in parts))


@given(st.none() | _parts, _parts, _parts)
@example("", "## B-3\n```\nz\n", "## B-2\n```\nz\n## B-2\n\n")  # the one block's end is the other's beginning
def test_no_section_of_either_side_is_lost(base: str | None, ours: str, theirs: str) -> None:
    merged = merge_texts(base, ours, theirs)

    old = [each.text.rstrip() for each in document_of(base or "").sections]
    now = [each.text.rstrip() for each in document_of(merged.text).sections]
    kept = "\n".join(each.text for each in merged.kept)
    for section in document_of(theirs).sections:
        if section.text.rstrip() not in old:
            assert section.text.rstrip() in now
    for section in document_of(ours).sections:
        if section.text.rstrip() not in old:
            assert section.text.rstrip() in now or section.text.rstrip() in kept


@given(st.none() | _parts, _parts)
def test_one_side_alone_is_taken_as_it_is(base: str | None, text: str) -> None:
    assert merge_texts(text, text, base or "").text == (base or "")
    assert merge_texts(text, base or "", text) == merge_texts(None, base or "", base or "")
    assert merge_texts(base, text, text).kept == tuple[KeptSection]()

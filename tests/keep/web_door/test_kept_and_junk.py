"""What a reader came for stays, and what stands around it goes: fourteen pages of the kinds that an agent reads."""

from __future__ import annotations

from tests.keep.web_door.came import markdown
from tests.keep.web_door.pages import PAGES


def test_what_a_reader_came_for_stays_and_what_stands_around_it_goes() -> None:
    """All things are kept; of 147 pieces of junk 31 come through: those that only a style sheet hides, in the frame."""
    read = {page: markdown(page.html) for page in PAGES}
    assert [(page.name, word) for page, text in read.items() for word in page.kept if word not in text] == []
    left = [(page.name, word) for page, text in read.items() for word in page.junk if word in text]
    assert len(left) <= 31, left

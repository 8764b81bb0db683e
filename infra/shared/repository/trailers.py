"""What commits say in their last lines, `Name: value` (git-interpret-trailers(1)), when it is known who made them."""

from __future__ import annotations

from infra.shared.people import Person
from infra.shared.repository.git import Git


def said_by(git: Git, person: Person, trailer: str, ref: str, most: int) -> dict[str, str]:
    """The values of this trailer in the last `most` commits of `ref` that this person committed, each with the last
    commit that has it. Raises GitError.

    NUL divides the answer, which no commit can hold: whoever writes names and messages must not write answers."""
    shown = f"--format=%H%x00%ce%x00%(trailers:key={trailer},valueonly,unfold,separator=%x20)%x00"
    fields = git.raw("log", f"--max-count={most}", shown, ref, "--").decode(errors="replace").split("\0")
    commits = zip(fields[0::3], fields[1::3], fields[2::3], strict=False)
    told = [(id.removeprefix("\n"), values.split()) for id, email, values in commits if email == person.email]
    return {value: id for id, values in reversed(told) for value in values}

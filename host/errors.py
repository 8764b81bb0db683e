"""Everything foreseeable that can go wrong in the command, as one exception with an exit code.

The text names the thing, what was expected, what was found and what to do next; `as_command_error` gives such words
to the exceptions of the parts below. What it does not know is a bug, and flies."""

from __future__ import annotations

import errno
import os

from infra.shared.exit_codes import Exit

_FULL = (errno.ENOSPC, errno.EDQUOT)


class CommandError(Exception):
    """The command cannot do what was asked; carries how it ends."""

    def __init__(self, code: Exit, text: str) -> None:
        super().__init__(text)
        self.code = code


def as_command_error(error: Exception) -> CommandError | None:
    """The trouble that `error` means for the PM; None when nobody foresaw it."""
    if isinstance(error, CommandError):
        return error
    if isinstance(error, OSError) and error.errno in _FULL:
        return _disk_is_full(error)
    if isinstance(error, OSError):
        return CommandError(Exit.FAILURE, f"the system refused: {error}; 'minifram doctor' checks the usual causes")
    return _of_a_part(error)


def _disk_is_full(error: Exception) -> CommandError:
    return CommandError(
        Exit.FAILURE, f"the disk is full ({error}); free some space, then see with 'minifram status' what was done"
    )


def _of_a_part(error: Exception) -> CommandError | None:
    # Imported here: whoever raised one of these has loaded the module, and whoever did not need not pay for it.
    from infra.shared.comms import CommsError
    from infra.shared.repository.git import GitError
    from infra.shared.repository.tip import TipBusy

    if isinstance(error, CommsError):
        return CommandError(Exit.NOT_FOUND, str(error))
    if isinstance(error, TipBusy):
        return CommandError(Exit.TRY_AGAIN, str(error))
    if isinstance(error, GitError):
        if isinstance(error.__cause__, FileNotFoundError) and error.__cause__.filename == "git":
            return CommandError(Exit.FAILURE, "git is not installed or not on PATH; minifram needs git 2.38 or newer")
        if "Unable to create" in error.stderr and ".lock': File exists" in error.stderr:
            return CommandError(
                Exit.TRY_AGAIN,
                f"another git works on the repository, or one died in the middle of it ({error}); "
                "try again; if no git is running, remove the .lock file that is named here",
            )
        if any(os.strerror(number) in error.stderr for number in _FULL):
            return _disk_is_full(error)
        return CommandError(Exit.FAILURE, f"{error}; 'minifram doctor' checks the repository")
    if type(error).__name__ == "SettingsError":  # its module costs msgspec and yaml
        return CommandError(Exit.USAGE, str(error))
    return None

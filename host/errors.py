"""What can go wrong in a command, as one exception with an exit code.

The text names the thing, what was expected, what was found and what to do next. `as_command_error` translates the
exceptions of the parts below; one that it does not know is a bug, and is not caught."""

from __future__ import annotations

from functools import partial

from infra.shared.exit_codes import Exit


class CommandError(Exception):
    """The command cannot do what was asked; `code` is its exit code."""

    def __init__(self, code: Exit, text: str) -> None:
        super().__init__(text)
        self.code = code


failure = partial(CommandError, Exit.FAILURE)
usage = partial(CommandError, Exit.USAGE)
not_running = partial(CommandError, Exit.NOT_RUNNING)
not_found = partial(CommandError, Exit.NOT_FOUND)
denied = partial(CommandError, Exit.DENIED)
conflict = partial(CommandError, Exit.CONFLICT)
try_again = partial(CommandError, Exit.TRY_AGAIN)


def as_command_error(error: Exception) -> CommandError | None:
    """What `error` means for the PM; None for a bug."""
    # Imported here: if one of these was raised its module is loaded, and otherwise its cost is saved.
    from infra.shared.comms import CommsError
    from infra.shared.repository.git import GitError
    from infra.shared.repository.tip import TipBusy

    match error:
        case CommandError():
            return error
        case OSError():
            return failure(f"the system refused: {error}; 'minifram doctor' checks the usual causes")
        case CommsError():
            return not_found(str(error))
        case TipBusy():
            return try_again(str(error))
        case GitError():
            if isinstance(error.__cause__, FileNotFoundError) and error.__cause__.filename in ("git", "prlimit"):
                return failure("git is not installed or not on PATH; minifram needs git 2.38 or newer")
            if ".lock': File exists" in error.stderr:  # git names it, and says when to remove it
                return try_again(str(error))
            return failure(f"{error}; 'minifram doctor' checks the repository")
    if type(error).__name__ == "SettingsError":  # its module costs yaml
        return usage(str(error))
    return None

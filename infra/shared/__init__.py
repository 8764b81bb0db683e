"""What keep, cell and host share; imports no other part of the project.

Everything that the runner needs before SUCCESS is a NamedTuple or a plain function over the standard library: the
runner's start is measured, and `dataclasses` or `msgspec` would double it."""

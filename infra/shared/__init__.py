"""The words that the programs share; a leaf that imports no other part of the project.

Everything the runner needs before it says SUCCESS is a NamedTuple or a plain function over the standard
library: the start of the runner is measured, and `dataclasses` or `msgspec` would double it.
"""

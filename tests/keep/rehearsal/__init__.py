"""Rehearsals of this very version, and of versions of it each broken in one place: real processes, real git."""

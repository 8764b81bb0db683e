"""Programs that run inside a container: attempts to get out of the cell, and ordinary work that must succeed.

They know the standard library alone and nothing of this project, as an intruder would."""

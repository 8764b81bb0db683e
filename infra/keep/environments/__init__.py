"""A version's own Python packages: `choose` says which interpreter it runs with; `install` is a program of the cell."""

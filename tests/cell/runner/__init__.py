"""The runner's life: real repositories and real runner processes, between two doors written by hand."""

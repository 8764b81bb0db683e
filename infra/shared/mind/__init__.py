"""The mind's documents: parsing, writing, merging, searching. Pure, but for the index of `recall`."""

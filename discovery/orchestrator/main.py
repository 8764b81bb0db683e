"""The loop: a block, its command in the container, the result, a note."""

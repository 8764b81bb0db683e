"""The PM's side: the `minifram` command and what it does on the host."""

"""A branch's own Python packages: `requirements` reads what it asks for, `store` is where environments lie, `install`
and `tidy` are programs that the watcher runs as the cell."""

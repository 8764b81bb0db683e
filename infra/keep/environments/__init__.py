"""What a branch's requirements ask for, installed beside those of others: `requirements` and `choose` are pure, `shelf`
looks, `install` and `tidy` are programs that the watcher runs as the cell."""

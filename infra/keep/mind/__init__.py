"""What the keep holds of the mind: the log of its events, snapshots, hashes of what the PM alone writes."""

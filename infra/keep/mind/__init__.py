"""What the keep holds of the mind: heads of the event chain, snapshots, hashes of what the PM alone writes."""

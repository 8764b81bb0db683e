"""One run: its opening, its record, its conversation."""

"""What the runner does with the mind: reads it, records events in it, promotes, maintains, commits and pushes it."""

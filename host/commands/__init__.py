"""The commands: each parses, makes one call that returns a value, and prints that.

They import what they need inside, so that help and other commands do not pay for it."""

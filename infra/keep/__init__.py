"""What the agent cannot touch: it decides, and enforces."""

"""Who explores: a person at the terminal; later, a model."""

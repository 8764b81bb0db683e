"""A runner's life: it starts; on a branch it has itself examined, merges into main if it may, and makes way."""

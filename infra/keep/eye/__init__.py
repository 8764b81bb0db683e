"""The eye: a browser in a place of its own, and the program that speaks with it. Nothing here reads a page itself."""

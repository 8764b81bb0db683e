"""What keep and cell both reach: what they say to each other, and the ground both stand on. It imports no other part of
the project."""

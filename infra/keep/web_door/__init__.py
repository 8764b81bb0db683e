"""The web door: what it fetches for the cell, how it judges that, and how it reads what came."""

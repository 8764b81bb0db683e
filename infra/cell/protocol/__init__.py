"""The operations protocol: what an agent asks for as text, and the events that answer it. Everything here is pure."""

"""What there is to do, and when what did not end is begun again."""

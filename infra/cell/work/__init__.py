"""What there is to do, in its order, and when what did not end is begun again."""

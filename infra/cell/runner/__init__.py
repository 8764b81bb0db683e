"""The runner's parts by subject: its start, its page, its work, its sleep, its hop to another version. They know
the loop; the loop does not know them."""

"""Main's runner at work: what there is to do, and the runs for it. It knows the loop; the loop does not know it."""

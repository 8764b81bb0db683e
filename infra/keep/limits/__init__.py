"""A runaway processor, exploding logs, short disks: sampled, judged purely, ended at the second time, or told."""

"""What has to be so before the cell's first line runs, and how the keep gives up what it needed to make it so."""

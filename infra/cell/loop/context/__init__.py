"""What keeps a conversation within its budget of tokens: sizes (`tokens`), long texts cut to their ends (`clip`),
summaries (`summarise`), whole outputs on the disk (`spill`); `context` decides when."""

"""The parts of the model door: one adapter per provider, which of them is asked, prices, the day's budget and the
ledger. Only the keep runs this; the runner knows nothing of it but the conversation of `contract`."""

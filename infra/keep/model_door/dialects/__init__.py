"""The formats of providers: what is sent, and what each event of a reply means."""

"""What may leave the sealed container (`spec/ARCHITECTURE.md`): the packet rules and their proof, and the keep's
resolver. The rules themselves are in `nftables/`."""

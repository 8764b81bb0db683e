"""What may leave the sealed container (`spec/ARCHITECTURE.md`): the packet rules and their proof, the keep's resolver,
and what both of them count. The rules themselves are in `nftables/`."""

"""A hunt for traps of Vela's estimate: graphs that it prices by more, or by less, than bytes and commands explain."""

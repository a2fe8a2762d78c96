"""Mean acceptance length of a speculative server, from its own counters."""

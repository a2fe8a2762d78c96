"""KV-cache blocks: one pool for all groups, each group with its own block tables."""

"""Tools that prove the one-launch build: same metadata, on random batches and on real traffic."""

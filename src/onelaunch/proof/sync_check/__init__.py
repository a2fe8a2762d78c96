"""Any PyTorch program, run with its device synchronisations recorded: ``onelaunch sync-check``."""

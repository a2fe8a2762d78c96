"""``python -m onelaunch``: the command line where the package is not installed."""

from onelaunch.cli import main

main()

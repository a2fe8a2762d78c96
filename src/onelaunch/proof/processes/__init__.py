"""Commands and servers that are run, watched, and never left running."""

"""``onelaunch bench``: the build against the usual ways, on the same inputs, in one process."""

"""A plan of claims and the evidence for them, run as one, and reported as one."""

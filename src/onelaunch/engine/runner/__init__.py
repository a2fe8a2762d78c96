"""A step on the device: its inputs, its pieces, and the graphs they are captured in."""

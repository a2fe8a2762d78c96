"""Two servers compared under load, round by round: base and change, with honest statistics."""

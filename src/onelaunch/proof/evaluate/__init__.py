"""Accuracy of a served model on GSM8K, with what its differences are worth."""

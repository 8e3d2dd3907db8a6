"""Errors as data and as text, also those of living exceptions."""

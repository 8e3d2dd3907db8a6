"""What is in place and what is missing: doctor()."""

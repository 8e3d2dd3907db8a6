"""Reports of files."""

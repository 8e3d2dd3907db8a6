"""Running processes and core files."""

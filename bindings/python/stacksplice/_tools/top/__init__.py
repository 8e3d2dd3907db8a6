"""Many reports: which errors are the most frequent."""

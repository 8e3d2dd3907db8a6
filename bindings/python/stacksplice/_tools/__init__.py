"""What reads reports, other processes and core files: no program needs it in order to run."""

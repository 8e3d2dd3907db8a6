"""Names and lines of native frames from files of symbols."""

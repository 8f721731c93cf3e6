"""Child processes: their groups, their ends, and what goes through their pipes."""

"""From a kernel and types to compiled programs: one at a time, ahead of launches, for other machines."""

"""Facts about functions of the IR: what threads share, which accesses overlap, what costs how much."""

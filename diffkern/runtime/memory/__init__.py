"""Memory, devices and streams, and the operations that run on them."""

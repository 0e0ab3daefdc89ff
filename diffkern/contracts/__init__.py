"""What compile time and run time agree on: argument blocks, manifests, options, platforms."""

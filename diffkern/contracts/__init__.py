"""The contracts between compile time and run time: argument blocks, manifests, options, platforms."""

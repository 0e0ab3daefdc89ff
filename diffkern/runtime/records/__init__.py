"""Launches that are repeated: records, sequences, graphs."""

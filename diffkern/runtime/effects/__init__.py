"""Handlers of operations: tapes, function tapes, tangents."""

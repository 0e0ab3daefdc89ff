"""Launches of adjoints: cotangents, and the ways in which racing contributions are added."""

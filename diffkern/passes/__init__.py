"""Passes over the IR: each takes a function and returns another one, or facts about it. None knows a target."""

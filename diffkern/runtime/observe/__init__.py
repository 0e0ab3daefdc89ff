"""Observation of launches: traces, timers, logs, settings."""

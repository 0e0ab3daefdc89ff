"""The process around diffkern: tracebacks, garbage collection, forks, interrupts, locks."""

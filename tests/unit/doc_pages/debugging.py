import io
import sys


def commands(*lines):
    """Give these lines to the debugger."""
    cleanup.callback(setattr, sys, "stdin", sys.stdin)
    sys.stdin = io.StringIO("\n".join(lines) + "\n")

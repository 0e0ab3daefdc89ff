"""``python -m diffkern``: the command line."""

from __future__ import annotations

from diffkern.cli.command import main

if __name__ == "__main__":
    raise SystemExit(main())

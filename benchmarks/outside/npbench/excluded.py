"""Programs of NPBench that are not ported, with reasons and plans."""

REASONS: dict[str, str] = {}

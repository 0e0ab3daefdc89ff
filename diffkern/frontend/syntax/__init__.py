"""From source text to a typed syntax tree: parsing, checks, desugaring, keys."""

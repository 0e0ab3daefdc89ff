"""Programs for other machines and processes: exported as source, compiled ahead, and shipped with a package."""

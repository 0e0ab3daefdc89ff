"""What the programs of the page on the language take for granted."""

seed, i = 42, 0

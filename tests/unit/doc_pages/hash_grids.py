"""What the programs of the page on hash grids take for granted: nothing."""

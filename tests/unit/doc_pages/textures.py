"""What the programs of the page on textures take for granted: nothing."""

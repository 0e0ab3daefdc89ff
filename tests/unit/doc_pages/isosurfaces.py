"""What the programs of the page on surfaces of fields take for granted: nothing."""

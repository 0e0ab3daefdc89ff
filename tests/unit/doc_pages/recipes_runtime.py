"""What the recipes for the run time take for granted."""

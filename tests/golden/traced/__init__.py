"""Programs whose effects on arrays are traced, by what they use."""

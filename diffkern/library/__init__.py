"""Built-in functions written in the kernel language. Each module is imported when a function of it is first used."""

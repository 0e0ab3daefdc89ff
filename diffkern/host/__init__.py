"""Built-ins and funcs called from Python, and functions for programs of other compilers."""

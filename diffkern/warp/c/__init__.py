"""Short C++ texts of ``wp.func_native`` as Python."""

"""Native execution of kernels on the CPU: a loader for object code and a thread pool in native code.

``loader`` turns object bytes into function addresses; ``pool`` calls such functions on chunks of a range, from all
cores. Both need llvmlite alone, imported at the first use, never numba.
"""

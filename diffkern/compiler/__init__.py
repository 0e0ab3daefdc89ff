"""From a Python function to a program: the pipeline, its passes, and the builds for a process, a cache or a package."""

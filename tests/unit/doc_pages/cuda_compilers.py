# The page's program is complete.

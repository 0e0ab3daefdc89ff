"""What the programs of the page on built-ins take for granted."""

import diffkern as dk

seed, i = 42, 0

"""What the programs of the page on the memory of adjoints take for granted."""

import diffkern as dk

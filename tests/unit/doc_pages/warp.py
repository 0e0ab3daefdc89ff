"""What the programs of the page on programs for Warp take for granted."""

import diffkern.warp as wp

x, v = wp.zeros(4, dtype=wp.vec3), wp.ones(4, dtype=wp.vec3)

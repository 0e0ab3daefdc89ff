"""What the recipes for operations and passes take for granted."""

from diffkern.ir.nodes import walk
from diffkern.ir.passes import Pass
from diffkern.ir.stages import PRIMAL

"""What the recipes take for granted."""

from diffkern.contracts.platforms import Family, Processor
from diffkern.ir.nodes import walk
from diffkern.ir.passes import Pass
from diffkern.ir.stages import PRIMAL

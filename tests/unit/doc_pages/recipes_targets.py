"""What the recipes for targets and dialects take for granted."""

from diffkern.contracts.platforms import Family, Processor

"""DiffTaichi's simulators as kernels, beside the published programs in Taichi.

Losses are those after a few iterations of the descent; gradients were compared with differences, of shorter runs where
contacts or kinks leave differences without a meaning. ``diffmpm_simple`` was measured again after the others, on the
same machine and day.
"""

"""DiffTaichi's simulators as kernels, beside the published programs in Taichi.

Losses are those after a few iterations of the descent; gradients were compared with differences, of shorter runs where
contacts or kinks leave differences without a meaning. Rows with a scale do less than the published program, on both
sides. ``diffmpm``, ``diffmpm3d``, ``diffmpm_simple``, ``liquid`` and ``volume_renderer`` were measured after the
others, on the same machine and day. ``--horizon`` looks at gradients by the number of steps.
"""

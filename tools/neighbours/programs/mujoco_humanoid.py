"""The humanoid that comes with MuJoCo Warp, in contact with the floor."""

from _mujoco import Scene, test_scene

PACKAGE = "mujoco-warp"
STEPS = 101
TOLERANCE = 1e-3


def begin():
    return Scene(path=test_scene("humanoid", "humanoid.xml"), controls=0.2, motion=0.01, nconmax=64, njmax=256)

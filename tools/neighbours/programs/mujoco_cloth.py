"""A square of cloth, held at two corners: a flex of two dimensions."""

from _mujoco import Scene

PACKAGE = "mujoco-warp"
STEPS = 101
TOLERANCE = 1e-3

MODEL = """
<mujoco>
  <option timestep="0.002" solver="CG" tolerance="1e-6"/>
  <worldbody>
    <flexcomp type="grid" count="6 6 1" spacing=".1 .1 .1" pos="0 0 1" radius=".01" name="cloth" dim="2" mass="0.5">
      <edge equality="true" damping="0.01"/>
      <contact contype="0" conaffinity="0" selfcollide="none"/>
      <pin id="0 5"/>
    </flexcomp>
  </worldbody>
</mujoco>
"""


def begin():
    return Scene(MODEL, motion=0.0, njmax=512)

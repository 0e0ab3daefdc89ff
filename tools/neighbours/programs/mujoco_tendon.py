"""Three joints that a motor pulls by a tendon, by Runge and Kutta's method."""

from _mujoco import Scene

PACKAGE = "mujoco-warp"
STEPS = 101
TOLERANCE = 1e-4

MODEL = """
<mujoco>
  <option timestep="0.004" integrator="RK4"/>
  <worldbody>
    <body pos="0 0 1">
      <joint name="a" type="hinge" axis="0 1 0" damping="0.05"/>
      <geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.03" contype="0" conaffinity="0"/>
      <body pos="0.2 0 0">
        <joint name="b" type="hinge" axis="0 1 0" damping="0.05"/>
        <geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.03" contype="0" conaffinity="0"/>
        <body pos="0.2 0 0">
          <joint name="c" type="hinge" axis="0 0 1" damping="0.05"/>
          <geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.03" contype="0" conaffinity="0"/>
        </body>
      </body>
    </body>
  </worldbody>
  <tendon>
    <fixed name="pull" stiffness="2" damping="0.1">
      <joint joint="a" coef=".25"/>
      <joint joint="b" coef=".5"/>
      <joint joint="c" coef=".75"/>
    </fixed>
  </tendon>
  <actuator>
    <motor tendon="pull" gear="2"/>
  </actuator>
</mujoco>
"""


def begin():
    return Scene(MODEL, controls=0.8)

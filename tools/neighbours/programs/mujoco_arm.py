"""An arm of seven links with limits, friction and motors, by implicitfast."""

from _mujoco import Scene

PACKAGE = "mujoco-warp"
STEPS = 101
TOLERANCE = 1e-4
LINKS = 7


def model():
    opened = ""
    for k in range(LINKS):
        axis = ("0 0 1", "0 1 0")[k % 2]
        opened += (
            f'<body pos="0 0 {0.1 if k == 0 else 0.2}"><joint name="j{k}" type="hinge" axis="{axis}" range="-2 2"'
            f' limited="true" damping="0.5" armature="0.02" frictionloss="0.1"/>'
            f'<geom type="capsule" fromto="0 0 0 0 0 0.2" size="0.03" contype="0" conaffinity="0"/>'
        )
    motors = "".join(f'<motor joint="j{k}" gear="5"/>' for k in range(LINKS))
    return (
        '<mujoco><option timestep="0.004" integrator="implicitfast"/><worldbody>'
        f"{opened}{'</body>' * LINKS}</worldbody><actuator>{motors}</actuator></mujoco>"
    )


def begin():
    return Scene(model(), controls=0.8, motion=0.3)

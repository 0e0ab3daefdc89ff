"""Examples of Newton without a viewer."""

import importlib
import sys

import newton.examples
import numpy as np

_STATE = ("particle_q", "particle_qd", "body_q", "body_qd")


class Example:
    """An example by its module's name; its outputs are its last state, those of all its layers, or else the arrays that
    it has itself.
    """

    def __init__(self, name, *arguments):
        module = importlib.import_module(f"newton.examples.{name}")
        sys.argv = [name, "--viewer", "null", "--headless", *arguments]
        parser = getattr(module.Example, "create_parser", newton.examples.create_parser)()
        viewer, given = newton.examples.init(parser)
        self.example = module.Example(viewer, given)

    def step(self):
        self.example.step()

    def nudge(self):
        """Move where it begins by one unit in the last place, and zeros by 1e-8, up or down at random."""
        random = np.random.default_rng(1)
        for state in self._states() if self._layers() else self._states()[:1]:
            for array in (getattr(state, name, None) for name in ("particle_q", "body_q", "joint_q")):
                if array is not None and array.size:
                    have = array.numpy()
                    to = np.where(random.random(have.shape) < 0.5, np.inf, -np.inf).astype(have.dtype)
                    array.assign(np.where(have != 0, np.nextafter(have, to), np.copysign(have.dtype.type(1e-8), to)))

    def outputs(self):
        example, states = self.example, self._states()
        layers = {f"{k}.{name}": getattr(one.state_0, name) for k, one in enumerate(self._layers()) for name in _STATE}
        source, names = (states[-1], _STATE) if states else (example, vars(example))
        found = layers or {name: getattr(source, name, None) for name in names}
        return {name: value.numpy() for name, value in found.items() if hasattr(value, "numpy")}

    def _states(self):
        example = self.example
        if layers := self._layers():
            return [layer.state_0 for layer in layers]
        return [example.state_0] if hasattr(example, "state_0") else list(getattr(example, "states", ()))

    def _layers(self):
        """Return the simulations of an example that has several side by side."""
        return [one for one in getattr(self.example, "layers", ()) if hasattr(one, "state_0")]


class Trained(Example):
    """An example that descends along a gradient; its outputs are the losses, particles at the end, and the gradient."""

    def parameters(self):
        """Return the array whose elements it looks for."""
        return self.example.states[0].particle_qd

    def outputs(self):
        example = self.example
        losses = list(example.loss_history)
        example.forward_backward()  # a step leaves gradients of zero
        gradient = self.parameters().grad.numpy()
        return {"losses": losses, "particles": example.states[-1].particle_q.numpy(), "gradient": gradient}

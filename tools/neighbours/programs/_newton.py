"""Examples of Newton without a viewer."""

import importlib
import sys

import newton.examples


class Example:
    """An example by its module's name; its outputs are the state of particles, bodies and joints."""

    def __init__(self, name, *arguments):
        module = importlib.import_module(f"newton.examples.{name}")
        sys.argv = [name, "--viewer", "null", "--headless", *arguments]
        parser = getattr(module.Example, "create_parser", newton.examples.create_parser)()
        viewer, given = newton.examples.init(parser)
        self.example = module.Example(viewer, given)

    def step(self):
        self.example.step()

    def outputs(self):
        state = self.example.state_0
        found = {name: getattr(state, name, None) for name in ("particle_q", "particle_qd", "body_q", "body_qd")}
        return {name: value.numpy() for name, value in found.items() if value is not None}


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

"""Objects that kernels look up by an id, in the steps of a roll-out: each step must find them as it did at first.

An object that a launch reads was built by the same step, or before the roll-out and is restored to that state whenever
a step runs again; otherwise an error is raised.
"""

from __future__ import annotations

from diffkern.errors import LaunchError
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.launch.resources import Resource, Use, looked_at, present

__all__ = ["StepObjects"]


class StepObjects:
    """The objects that the steps of one roll-out read."""

    def __init__(self) -> None:
        self._first = {resource: resource.built for resource in present()}
        self._now = dict(self._first)
        self._older: dict[Resource, Use] = {}  # built before the roll-out
        self._seen: set[Resource] = set()

    def begin(self, again: bool) -> None:
        """Prepare for a step, which runs for the first time or again."""
        if again:
            for use in self._older.values():
                use.lead_back()
        self._now = {resource: resource.built for resource in present()}

    def check(self, launch: PackedLaunch) -> None:
        """Raise if a launch would find an object in another state when its step runs again."""
        for resource in looked_at(launch.executable, launch.parts):
            self._seen.add(resource)
            # The step has built it itself, and will again.
            if resource.built != self._now.get(resource):
                continue
            use = self._older.get(resource)
            if use is None and resource.built == self._first.get(resource):
                use = self._older[resource] = Use(resource)
            if use is None or use.content is not resource.content:
                raise LaunchError(
                    f"kernel {launch.kernel.name!r} looks by an id at an object that an earlier step built",
                    remedy="build it in each step that uses it, or once before dk.checkpoint",
                )
            use.check(f"an earlier step (kernel {launch.kernel.name!r})")

    def uses(self) -> list[Use]:
        """Return the uses of the objects in their present state."""
        return [Use(resource) for resource in self._seen]

"""The native code of the run time, put together."""

from __future__ import annotations

from diffkern.runtime.native.builder import Module
from diffkern.runtime.native.device_ir import add_device
from diffkern.runtime.native.pool_ir import add_pool
from diffkern.runtime.native.replay_ir import add_replay
from diffkern.runtime.native.scope_ir import add_scope
from diffkern.runtime.native.setter_ir import add_setter

__all__ = ["runtime_ir"]


def runtime_ir(max_workers: int, platform: str, machine: str) -> str:
    """Return the module's text, for ``sys.platform`` and ``platform.machine()``."""
    m = Module("diffkern.runtime")
    add_pool(m, max_workers, platform, machine)
    add_replay(m, add_device(m))
    add_setter(m)
    add_scope(m)
    return str(m)

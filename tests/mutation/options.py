"""Faults in options of kernels, their modules and the configuration, each with the tests that must notice it."""

from __future__ import annotations

from diffkern.runtime.observe import config
from diffkern.warp import config as warp_config

from .edits import Fault, edit

_TESTS = "tests/unit/runtime/test_enable_backward.py"

OPTIONS = [
    Fault("the environment cannot give gradients to kernels that switch them off",
          edit(config, "Config.__init__", '"always" if wish == "always" else wish != "0"', 'wish != "0"'),
          (f"{_TESTS}::test_the_environment_says_it[always-always]",)),
    Fault("settings of Warp that are numbers stay numbers",
          edit(warp_config, "_Settings.__setattr__", "name in _SWITCHES and not isinstance(value, str)", "False"),
          (f"{_TESTS}::test_packages_that_switch_it_off",)),
]  # fmt: skip

import functools
from unittest import mock

import torch

import diffkern as dk

# Inductor would call a compiler for C++.
cleanup.enter_context(mock.patch.object(torch, "compile", functools.partial(torch.compile, backend="aot_eager")))

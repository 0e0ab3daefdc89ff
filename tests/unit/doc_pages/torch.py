import torch

import diffkern as dk

import math

import numpy as np

import diffkern as dk
from diffkern import cuda

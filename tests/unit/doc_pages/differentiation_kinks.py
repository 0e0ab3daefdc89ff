# The imports of the page's programs.

import numpy as np

import diffkern as dk

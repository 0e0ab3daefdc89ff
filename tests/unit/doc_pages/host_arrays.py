import numpy as np
from matplotlib.figure import Figure

import diffkern as dk

plt = Figure().subplots()

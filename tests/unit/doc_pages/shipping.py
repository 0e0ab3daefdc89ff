import contextlib
import os
import shutil
import sys
from pathlib import Path

import diffkern as dk
from diffkern.cli import command

source = Path(dk.__file__).parents[1]
shutil.copy(source / "docs" / "snippets" / "shipped" / "model.py", "model.py")
with contextlib.redirect_stderr(sys.stdout):
    command.main(["compile", "model.py", "--target", "native", "--out", "kernels/"])
cleanup.callback(os.environ.__setitem__, "PYTHONPATH", os.environ.get("PYTHONPATH", ""))
os.environ["PYTHONPATH"] = str(source)
cleanup.callback(sys.path.remove, str(Path.cwd()))
sys.path.insert(0, str(Path.cwd()))
cleanup.callback(sys.modules.pop, "model", None)

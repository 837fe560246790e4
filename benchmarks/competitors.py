"""A competing library in an environment of its own, on the same coded rows."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np

_DIFFPRIVLIB = """
import json, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
from diffprivlib.models import LinearRegression
stored = np.load(sys.argv[1])
found = []
for i in range(len(stored["y"])):
    X, y = stored["X"][i], stored["y"][i]
    model = LinearRegression(epsilon=float(sys.argv[2]), bounds_X=(-1.0, 1.0), bounds_y=(-1.0, 1.0), random_state=i)
    model.fit(X, y)
    found.append([float(np.ravel(model.intercept_)[0]), *map(float, np.ravel(model.coef_))])
print(json.dumps(found))
"""


def diffprivlib(tables, epsilon, python):
    """diffprivlib's LinearRegression in an environment of its own (scikit-learn < 1.8), on the same rows.

    `tables` is a list of (Z, y); `python` the interpreter of that environment.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npz"
        np.savez(path, X=np.array([Z[:, 1:] for Z, _ in tables]), y=np.array([y for _, y in tables]))
        script = Path(folder) / "fit.py"
        script.write_text(_DIFFPRIVLIB)
        done = subprocess.run(
            [python, str(script), str(path), str(epsilon)], capture_output=True, text=True, check=True
        )
    return [np.array(row) for row in json.loads(done.stdout)]

"""Competing private least squares on coded columns: prototypes after the published algorithms, for comparison only.

Floating-point noise, so not private to the last bit. Columns lie in [-1, 1], the first is the constant, the outcome
lies in [-1, 1]; each function returns coefficients of the coded columns.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from dpstats.privacy.notions import gaussian_mu


def functional_mechanism(Z, y, epsilon, rng):
    """Zhang et al. 2012, linear regression: Laplace noise on the objective, regularised and trimmed."""
    d = Z.shape[1]
    scale = 2 * (d + 1) ** 2 / epsilon
    return _minimise(Z, y, scale, scale, rng)


def functional_mechanism_as_stated(Z, y, epsilon, rng):
    """The same under the paper's own normalisation, x in [0, 1/sqrt d], with its sensitivity 2 (d + 1)^2."""
    d = Z.shape[1] - 1
    X = (Z[:, 1:] + 1) / (2 * np.sqrt(d))
    w = functional_mechanism(np.column_stack([np.full(len(y), 1 / np.sqrt(d)), X]), y, epsilon, rng)
    slopes = w[1:] / (2 * np.sqrt(d))
    return np.concatenate([[w[0] / np.sqrt(d) + slopes.sum()], slopes])


def diff_lr(Z, y, epsilon, rng):
    """Zheng and Zou 2016: separate budgets for the quadratic and the linear part, split for the smallest error."""
    d = Z.shape[1]
    quadratic, linear = 2 * d**2, 4 * d
    ratio = (2 * quadratic / linear) ** (2 / 3)
    first = epsilon * ratio / (1 + ratio)
    return _minimise(Z, y, quadratic / first, linear / (epsilon - first), rng)


def _minimise(Z, y, quadratic_scale, linear_scale, rng):
    d = Z.shape[1]
    upper = np.triu(Z.T @ Z + rng.laplace(0, quadratic_scale, (d, d)))
    M = upper + np.triu(upper, 1).T + 4 * np.sqrt(2) * quadratic_scale * np.eye(d)
    alpha = -2 * Z.T @ y + rng.laplace(0, linear_scale, d)
    values, vectors = np.linalg.eigh(M)
    kept = values > 1e-8
    return -0.5 * (vectors[:, kept] / values[kept]) @ (vectors[:, kept].T @ alpha)


def adassp(Z, y, epsilon, delta, rng):
    """Wang 2018, with rows and outcome clipped to their public radii and exact Gaussian accounting."""
    d = Z.shape[1]
    mu = gaussian_mu(epsilon, delta) / np.sqrt(3)
    radius = np.sqrt(d)
    sd_value, sd_gram, sd_cross = radius**2 / mu, np.sqrt(2) * radius**2 / mu, 2 * radius / mu
    smallest = np.linalg.eigvalsh(Z.T @ Z)[0] + rng.normal(0, sd_value)
    tau = sd_gram / np.sqrt(2)
    ridge = max(0.0, np.sqrt(d * np.log(2 * d**2 / 0.05)) * tau - max(0.0, smallest - 1.645 * sd_value))
    noise = rng.normal(0, tau, (d, d))
    noise = np.triu(noise, 1) + np.triu(noise, 1).T + np.diag(rng.normal(0, sd_gram, d))
    return np.linalg.solve(Z.T @ Z + noise + ridge * np.eye(d), Z.T @ y + rng.normal(0, sd_cross, d))


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

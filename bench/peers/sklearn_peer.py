"""scikit-learn's side of the comparison: one iteration of Lloyd's algorithm."""

import sys
import time
import warnings

import numpy as np
from server import WORKS, serve
from sklearn.cluster import KMeans

warnings.filterwarnings("ignore")


def points(n, d):
    r = np.random.default_rng(0)
    centres = r.standard_normal((64, d)).astype("f") * 2
    return centres[r.integers(0, 64, n)] + r.standard_normal((n, d)).astype("f")


class Lloyd:
    """A step is the difference of two fits, divided by the iterations between, so that the set-up of a fit does not count."""

    def __init__(self, n, d, k):
        self.x = points(n, d)
        self.start = self.x[np.random.default_rng(1).choice(n, k, replace=False)]
        self.k = k

    def fit(self, iterations):
        begin = time.perf_counter()
        KMeans(self.k, init=self.start, n_init=1, max_iter=iterations, tol=0, algorithm="lloyd", copy_x=False).fit(self.x)
        return time.perf_counter() - begin

    def seconds(self):
        return (self.fit(8) - self.fit(2)) / 6


for n, d, k in ((100_000, 64, 256), (1_000_000, 16, 32)):
    WORKS[f"lloyd/{n}x{d}-{k}"] = lambda n=n, d=d, k=k: Lloyd(n, d, k).seconds

if __name__ == "__main__":
    sys.exit(serve())

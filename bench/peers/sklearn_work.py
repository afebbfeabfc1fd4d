#!/usr/bin/env python3
"""Lloyd's iterations of scikit-learn, on request: the protocol of torch_work.py. GRADUS_THREADS sets the number of threads."""

import os
import sys
import time
import warnings

import numpy
import sklearn
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

warnings.filterwarnings("ignore")
threadpool_limits(int(os.environ.get("GRADUS_THREADS", "1")))
FEW, MANY = 2, 7


class Problem:
    def __init__(self, n, d, k):
        rng = numpy.random.default_rng(0)
        self.x = rng.standard_normal((n, d)).astype("f")
        self.start = self.x[rng.choice(n, k, replace=False)]

    def fit(self, algorithm, iterations):
        begin = time.perf_counter()
        KMeans(len(self.start), init=self.start, n_init=1, max_iter=iterations, tol=0, algorithm=algorithm, copy_x=False).fit(self.x)
        return time.perf_counter() - begin

    def iteration(self, algorithm):
        """Seconds an iteration: the difference of two fits, so that set-up does not count."""
        return (self.fit(algorithm, MANY) - self.fit(algorithm, FEW)) / (MANY - FEW)


def main():
    current, problem = None, None
    for line in sys.stdin:
        words = line.split()
        if words[0] == "variants":
            print("lloyd" if words[1] == "lloyd" else "")
        elif words[0] == "version":
            print("scikit-learn", sklearn.__version__)
        elif words[0] == "time" and words[3] == "lloyd":
            if words[4:] != current:
                current, problem = words[4:], Problem(*map(int, words[4:]))
            print(problem.iteration(words[2]))
        else:
            print("error: not done here")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

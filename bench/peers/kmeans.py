#!/usr/bin/env python3
"""One k-means iteration, ours beside scikit-learn's, in interleaved pairs on the same threads.

Usage: kmeans.py GRADUS_BENCH [--threads N] [--pairs P]
GRADUS_BENCH is the built bench/gradus_bench program. Needs Debian's python3-sklearn.
Prints one line: work, ours, peer, and the ratio peer/ours (above 1: we are faster) with the spread over the pairs.
"""

import argparse
import json
import os
import subprocess
import sys
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("bench")
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--pairs", type=int, default=5)
options = parser.parse_args()

# Set before numpy loads its BLAS. OpenBLAS does not know newer processors: name the kernels that they run best.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = str(options.threads)
os.environ.pop("OPENBLAS_L2_SIZE", None)
flags = open("/proc/cpuinfo").read()
os.environ["OPENBLAS_CORETYPE"] = "SKYLAKEX" if "avx512bw" in flags else "ZEN" if "AMD" in flags else "HASWELL"

import numpy as np  # noqa: E402
from sklearn.cluster import KMeans  # noqa: E402

N, D, K = 1_000_000, 16, 32


def ours():
    """Milliseconds per layer."""
    out = subprocess.run([options.bench, "--benchmark_filter=transformer_layer", "--benchmark_format=json", "--benchmark_min_time=1"],
                         env={**os.environ, "GRADUS_THREADS": str(options.threads)}, capture_output=True, text=True, check=True).stdout
    return json.loads(out)["benchmarks"][0]["ms_per_layer"]


def fit(x, start, iterations):
    begin = time.perf_counter()
    KMeans(K, init=start, n_init=1, max_iter=iterations, tol=0, algorithm="lloyd", copy_x=False).fit(x)
    return time.perf_counter() - begin


def theirs(x, start):
    """Milliseconds per iteration: the difference of two fits, so that set-up does not count."""
    return (fit(x, start, 12) - fit(x, start, 2)) / 10 * 1e3


def main():
    import warnings
    warnings.filterwarnings("ignore")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((N, D)).astype("f")
    start = x[rng.choice(N, K, replace=False)]
    pairs = [(ours(), theirs(x, start)) for _ in range(options.pairs)]
    ratios = sorted(peer / mine for mine, peer in pairs)
    median = lambda values: sorted(values)[len(values) // 2]  # noqa: E731
    print(f"k-means n={N} d={D} k={K} f32, {options.threads} thread(s): ours {median([p[0] for p in pairs]):.1f} ms a layer, "
          f"scikit-learn {median([p[1] for p in pairs]):.1f} ms an iteration, ratio {median(ratios):.2f} "
          f"({ratios[0]:.2f} to {ratios[-1]:.2f} over {options.pairs} pairs), load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    sys.exit(main())

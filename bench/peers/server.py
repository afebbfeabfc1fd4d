"""What the Python peers share: works by name, timed on request.

A peer registers works with @work("NAME"); the function makes the data and returns the step. serve() then answers lines on standard
input as gradus_bench --serve does: "list"; "NAME SECONDS" with the seconds of one step; "memory NAME" with the bytes by which one
step raised the peak resident size.
"""

import resource
import sys
import time

WORKS = {}


def work(name):
    def register(prepare):
        WORKS[name] = prepare
        return prepare

    return register


def time_of(step, budget):
    """Seconds of a step; one that returns a number has measured itself."""
    measured = step()
    if measured is not None:
        return measured
    count = 1
    while True:
        start = time.perf_counter()
        for _ in range(count):
            step()
        took = time.perf_counter() - start
        if took >= budget / 2:
            return took / count
        count *= 2


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def serve():
    ready, step = None, None
    for line in sys.stdin:
        words = line.split()
        name = words[1] if words[0] == "memory" else words[0]
        if name == "list":
            answer = "\t".join(WORKS)
        elif name not in WORKS:
            answer = "unknown"
        else:
            if words[0] == "memory":  # a fresh step, so that nothing of it was in the peak before
                ready, step = name, None
                step = WORKS[name]()
                before = peak()
                step()
                answer = str(peak() - before)
            else:
                if ready != name:
                    step = None
                    step = WORKS[name]()
                    step()
                    step()
                    ready = name
                answer = f"{time_of(step, float(words[1])):.9g}"
        print(answer, flush=True)

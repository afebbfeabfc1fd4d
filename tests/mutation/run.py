#!/usr/bin/env python3
"""Plants one fault after another in the gradient rules of the engine's ops and sees whether the checks catch it.

Every rule (vjp and fused_vjp) and composite of engine/ops and engine/autograd/core_ops.cpp, with the functions they are made of, and
the loops and kernels of fused backwards, which kernels.txt lists, is taken apart: signs flipped, factors and terms dropped,
operators, operands, inputs, axes, indices and comparisons exchanged, constants made wrong by a percent, guards taken away, gradients
sent to another input or to none. All faults are compiled at once, each behind a number; the environment variable GRADUS_MUTANT
wakes one of them. A fault is killed when `gradus check` of the ops it concerns fails, or else the tests of tests/ops.

Faults that change nothing are listed in equivalent.txt, each with its reason.

Needs an up-to-date build by Ninja: cmake --build build/release --target gradus test_ops
"""

import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True
from sources import Project

ROOT = Path(__file__).resolve().parents[2]


class Build:
    """The objects and programs of a build folder, made anew with faults."""

    def __init__(self, folder):
        self.folder, self.work = folder, folder / "mutation"
        self.work.mkdir(exist_ok=True)
        for header in self.work.rglob("*.hpp"):  # of another run
            header.unlink()
        self.commands = {}  # of an object: its source and its command
        for entry in json.loads((folder / "compile_commands.json").read_text()):
            if Path(entry["file"]).is_relative_to(ROOT / "engine"):
                self.commands[re.search(r" -o (\S+)", entry["command"]).group(1)] = (Path(entry["file"]), entry["command"])
        self.reads = collections.defaultdict(set)  # of an object: the files it was made from
        # What expands the formulas of a header of kernels: those that include it, less what merely lists the kernels.
        self.kernel_sources = {p.name for p in (ROOT / "engine/kernels").glob("*.cpp")} - {"dispatch.cpp"}
        target = None
        for line in self.ninja("deps").splitlines():
            if not line.startswith(" "):
                target = line.split(":")[0]
            else:
                self.reads[target].add(Path(line.strip()))

    def ninja(self, tool, *arguments):
        return subprocess.run(["ninja", "-C", self.folder, "-t", tool, *arguments], capture_output=True, text=True, check=True).stdout

    def compile(self, files, jobs):
        """Compiles all that reads the files, with their faults; those that are no C++ are set aside. The objects."""
        at = {file: self.work / file.path.relative_to(ROOT) for file in files}
        known = self.work / "invalid.json"  # by the source with all its faults: a second run need not find them again
        invalid = json.loads(known.read_text()) if known.exists() else {}
        keys = {file: hashlib.sha256(file.text().encode()).hexdigest() for file in files}
        for file, place in at.items():
            for mutant in file.mutants:
                if mutant.number in invalid.get(keys[file], []):
                    mutant.state = "invalid"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(file.text())
        # Kernels are made to be inlined throughout; with all their faults a compiler takes minutes for that.
        simd = (ROOT / "engine/kernels/simd.hpp").read_text()
        (self.work / "engine/kernels").mkdir(parents=True, exist_ok=True)
        (self.work / "engine/kernels/simd.hpp").write_text(simd.replace("[[gnu::always_inline]] ", "").replace("__attribute__((always_inline))", ""))
        readers = {o: {file for file in files if self.is_reader(o, file)} for o in self.commands}
        objects = {o: self.work / o for o, read in readers.items() if read}
        for place in objects.values():
            place.parent.mkdir(parents=True, exist_ok=True)
        waiting = list(objects)
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            while waiting:
                runs = list(pool.map(lambda o: self.compile_one(o, objects[o], at), waiting))
                failed = [run.stderr for run in runs if run.returncode != 0]
                changed = self.set_aside("\n".join(failed), at)
                if failed and not changed:
                    sys.exit(f"does not compile with its faults:\n{failed[0][:6000]}")
                waiting = [o for o in objects if changed & readers[o]]
        invalid.update({keys[file]: [m.number for m in file.mutants if m.state == "invalid"] for file in files})
        known.write_text(json.dumps(invalid))
        return list(objects.values())

    def is_reader(self, one, file):
        """Whether the object depends on the file's faults: on those of a header of kernels, kernels alone."""
        of_kernels = file.path.parent.name == "kernels" and file.path.suffix == ".hpp"
        return file.path in self.reads[one] and not (of_kernels and self.commands[one][0].name not in self.kernel_sources)

    def compile_one(self, one, target, at):
        source, command = self.commands[one]
        place = next((p for file, p in at.items() if file.path == source), source)
        # Mutated headers come first. Faults are many and their code runs little.
        command = command.replace(f"-I{ROOT}", f"-I{self.work} -I{ROOT}", 1)
        command = re.sub(r" -o \S+", f" -w -O1 -o {target}", command).replace(f"-c {source}", f"-c {place}")
        cache = "ccache " if shutil.which("ccache") and "ccache" not in command else ""
        return subprocess.run(cache + command, shell=True, cwd=self.folder, capture_output=True, text=True)

    def set_aside(self, errors, at):
        """Marks the faults that the compiler complains of; the files they are in."""
        changed = set()
        for file, place in at.items():
            lines = place.read_text().splitlines()
            numbers = set()
            for line in re.findall(rf"{re.escape(str(place))}:(\d+):(?:\d+:)? +(?:error:|required from|note: in definition of macro)", errors):
                numbers.update(int(n) for n in re.findall(r"/\*mutant (\d+)\*/", lines[int(line) - 1]))
            for mutant in file.mutants:
                if mutant.number in numbers and mutant.state != "invalid":
                    mutant.state = "invalid"
                    changed.add(file)
            if file in changed:
                place.write_text(file.text())
        return changed

    def link(self, target, objects):
        """The program `target` with these objects before the libraries, which then are not asked for them."""
        command = self.ninja("commands", target).splitlines()[-1].split(" && ")[1]
        program = self.work / Path(target).name
        command = command.replace(f" -o {target} ", f" -o {program} " + " ".join(map(str, objects)) + " ")
        subprocess.run(command, shell=True, cwd=self.folder, check=True)
        return program


def described(m):
    return f"{m.file}:{m.line}  {','.join(m.ops)}  {m.rule}  ->  {m.what}"


def run_one(command, number, seconds):
    """(passed, output) of a command with one fault awake."""
    try:
        environment = {**os.environ, "GRADUS_MUTANT": str(number), "RC_PARAMS": "seed=1"}
        run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=seconds, errors="replace")
        return run.returncode == 0, run.stdout
    except subprocess.TimeoutExpired:
        return False, "FAIL  timeout"


def judge(mutant, check, tests):
    passed, output = run_one([check, "check", *mutant.ops], mutant.number, 60)
    if not passed:
        first = next((line for line in output.splitlines() if line.startswith("FAIL")), "")
        return "killed", " ".join(re.split(r"\s{2,}|\s(?=\d+ case)", first)[1:3]) or "crash"
    passed, output = run_one([tests, "~[ops]", "--abort"], mutant.number, 120)
    if not passed:
        failed = re.search(r"-{70,}\n(?:Scenario: )?([^\n]+)\n(?:(?!-{70,}).)*?FAILED:", output, re.S)
        return "killed", failed.group(1) if failed else "crash"
    return "survived", ""


def set_equivalent_aside(mutants, complete):
    """Marks the faults of equivalent.txt (a fault of * is all of a rule's); one that is not planted any more is an error."""
    for line in (Path(__file__).parent / "equivalent.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        op, rule, what, _ = line.split(" | ")
        found = [m for m in mutants if op in m.ops and m.rule == rule and what in (m.what, "*")]
        if not found and complete:
            sys.exit(f"equivalent.txt: no such fault: {line}")
        for mutant in found:
            mutant.state = "equivalent"


def require_all(registered, project):
    """Every registered op was found, and a fault in every fused backward."""
    missed = {op["name"] for op in registered} ^ project.ops
    if missed:
        sys.exit(f"registered ops that the sources seem to lack, or the other way round: {', '.join(sorted(missed))}")
    missed = {op["name"] for op in registered if op["fused"]} - project.with_fused
    if missed:
        sys.exit(f"no fault in the fused backward of {', '.join(sorted(missed))}: add its kernel to kernels.txt")


def print_table(mutants):
    counts = collections.defaultdict(collections.Counter)
    for m in mutants:
        counts[m.file][m.state or "not drawn"] += 1
    states = ["killed", "survived", "equivalent", "invalid", "not drawn"]
    print(f"\n{'':<36}" + "".join(f"{state:>12}" for state in states))
    for file, row in [*sorted(counts.items()), ("all", sum(counts.values(), collections.Counter()))]:
        print(f"{file:<36}" + "".join(f"{row[state]:>12}" for state in states))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ops", nargs="*", help="only what concerns these ops (default: all)")
    parser.add_argument("--build", type=Path, default=ROOT / "build/release", help="build folder (default: build/release)")
    parser.add_argument("--file", action="append", default=[], help="only faults in this file, by its path from the root; may be given again")
    parser.add_argument("--match", default="", help="only faults whose line in the list has this text")
    parser.add_argument("--sample", type=int, help="only so many faults, drawn at random")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (default: 1)")
    parser.add_argument("--jobs", type=int, default=1, help="compilers or faults to run at once (default: 1)")
    parser.add_argument("--list", action="store_true", help="list the faults and stop")
    parser.add_argument("--quiet", action="store_true", help="print survivors and the summary only")
    parser.add_argument("--json", type=Path, help="also write all of it to this file")
    options = parser.parse_args()

    project = Project(ROOT, set(options.ops))
    unknown = set(options.ops) - project.ops
    if unknown:
        parser.error(f"no op named {', '.join(sorted(unknown))}")
    files = [file for file in project.files if file.mutants and (not options.file or str(file.path.relative_to(ROOT)) in options.file)]
    mutants = [m for file in files for m in file.mutants]
    set_equivalent_aside(mutants, not options.ops and not options.file)
    if options.list:
        for m in mutants:
            if options.match in described(m):
                print(described(m))
        return 0

    build = Build(options.build.resolve())
    listed = subprocess.run([build.folder / "tools/gradus", "ops", "--json", "-"], capture_output=True, text=True, check=True).stdout
    require_all(json.loads(listed)["ops"], project)
    objects = build.compile(files, options.jobs)
    check, tests = build.link("tools/gradus", objects), build.link("tests/test_ops", objects)
    concerned = sorted({op for m in mutants for op in m.ops})
    for command in ([check, "check", *concerned], [tests, "~[ops]"]):
        passed, output = run_one(command, 0, 600)
        if not passed:
            sys.exit(f"fails with no fault awake: {command[0]}\n{output[-3000:]}")

    valid = [m for m in mutants if not m.state and options.match in described(m)]
    if options.sample:
        valid = sorted(random.Random(options.seed).sample(valid, min(options.sample, len(valid))), key=lambda m: m.number)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for m, (m.state, m.by) in zip(valid, pool.map(lambda one: judge(one, check, tests), valid)):
            if not options.quiet or m.state == "survived":
                print(f"{m.state:<9} {described(m)}{'  [' + m.by + ']' if m.by else ''}", flush=True)
    survivors = [m for m in valid if m.state == "survived"]
    print_table(mutants)
    print(f"\n{len(valid)} faults in the rules of {len({op for m in valid for op in m.ops})} ops: {len(valid) - len(survivors)} killed, {len(survivors)} survived")
    without = sorted(project.ops - project.with_rules)
    print(f"{len(without)} ops have no rule of their own: {', '.join(without)}")
    if options.json:
        options.json.write_text(json.dumps([vars(m) for m in mutants], indent=1) + "\n")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())

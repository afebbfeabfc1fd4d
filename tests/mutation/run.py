#!/usr/bin/env python3
"""Plants one fault after another in the gradient rules of the engine's ops and sees whether the checks catch it.

Every rule (vjp and fused_vjp) and composite of engine/ops/*.cpp and engine/autograd/core_ops.cpp, with the functions they are made
of, is taken apart: signs flipped, factors and terms dropped, operators, operands, inputs and axes exchanged, constants made wrong
by a percent, gradients sent to another input or to none. All faults of a file are compiled at once, each behind a number; the environment variable GRADUS_MUTANT wakes one of them. A
fault is killed when `gradus check` of the ops it concerns fails, or else the tests of tests/ops.

Faults that change nothing are listed in equivalent.txt, each with its reason.

Needs an up-to-date build by Ninja: cmake --build build/release --target gradus test_ops
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

sys.dont_write_bytecode = True
from expressions import closing, faults, split_at_commas, tokenize

ROOT = Path(__file__).resolve().parents[2]
SWITCH = """#include <cstdlib>
static bool mutant(int number) {
  static const int awake = std::getenv("GRADUS_MUTANT") ? std::atoi(std::getenv("GRADUS_MUTANT")) : 0;
  return awake == number;
}
"""
# The core has no arithmetic of tensors: faults there use kernels, off any tape.
CORE_ARITHMETIC = """
namespace {
[[maybe_unused]] gradus::Tensor operator*(double factor, const gradus::Tensor& t) {
  gradus::Tensor out = gradus::Tensor::empty(t.shape(), t.dtype());
  gradus::compute::binary(gradus::kernels::Binary::mul, t.detached(), gradus::Tensor::scalar(factor, t.dtype()), out);
  return out;
}
[[maybe_unused]] gradus::Tensor operator-(const gradus::Tensor& t) { return -1.0 * t; }
}  // namespace
"""


@dataclass
class Mutant:
    number: int
    file: str
    line: int
    ops: list
    rule: str  # the text that is changed
    what: str
    state: str = ""  # killed, survived, invalid, equivalent
    by: str = ""


@dataclass
class Unit:
    """A definition at namespace level."""

    name: str
    tokens: list
    op: str = ""  # of an OpDef: the op's name
    public: bool = False


def units_of(source):
    """The definitions of a file, in order. Braces of namespaces do not count."""
    tokens = tokenize(re.sub(r"^[ \t]*#.*$", lambda m: " " * len(m.group()), source, flags=re.M))
    units, i, start = [], 0, 0
    while i < len(tokens):
        text, mark = tokens[i].text, tokens[i].kind == "mark"
        if text == "namespace":
            while tokens[i].text != "{":
                i += 1
            start = i + 1
        elif mark and text in "([{":
            i = closing(tokens, i)
            last = tokens[i].text == "}" and (i + 1 == len(tokens) or tokens[i + 1].text not in (";", ",", ")", "(", "."))
            if last and not is_initialised(tokens[start : i + 1]):
                units.append(unit_of(source, tokens[start : i + 1]))
                start = i + 1
        elif mark and text == ";":
            units.append(unit_of(source, tokens[start : i + 1]))
            start = i + 1
        elif mark and text == "}":
            start = i + 1
        i += 1
    units = [unit for unit in units if unit]
    private_end = source.find("\n}  // namespace\n")
    for unit in units:
        unit.public = unit.tokens[0].start > private_end
    return units


def is_initialised(tokens):
    """True within `const OpDef x = {...}...;`, which ends at its semicolon."""
    return any(t.text == "=" for t in tokens[:4]) or any(t.text == "OpDef" and i < 3 and tokens[i - 1].text == "const" for i, t in enumerate(tokens[:4]))


def unit_of(source, tokens):
    if len(tokens) < 3:
        return None
    text = source[tokens[0].start : tokens[-1].end]
    match = re.match(r"(?:static\s+)?(?:inline\s+)?const OpDef (\w+) = ", text)
    if match:
        name = re.search(r'\.name\s*=\s*"(\w+)"', text) or re.search(r'[(\s]"(\w+)"', text)
        return Unit(match.group(1), tokens, name.group(1) if name else match.group(1))
    match = re.search(r"(\w+)\s*\(", re.sub(r"^template\s*<[^\n]*>\s*\n", "", text))
    return Unit(match.group(1), tokens) if match else None


def without_cases(body):
    """A definition less what builds its cases, and nothing of a function that does so: what stands there is no rule."""
    if "std::vector<OpCase>" in body.split("{")[0]:
        return ""
    body = re.sub(r"\.cases\s*=.*", "", body, flags=re.S)
    body = re.sub(r"\[\]\s*(\(\))?\s*\{(?=[^;]*OpCase|\s*(constexpr|auto|const)[^;]*;\s*(auto|return)[^;]*cases).*", "", body, flags=re.S)
    return re.sub(r"\bcases_\w+<[^;]*", "", body)


def ops_of(unit, units, source):
    """The ops whose definitions use the unit, directly or through other functions that are no public ones."""
    if unit.op:
        return [unit.op]
    reached, queue, ops = {unit.name}, [unit.name], []
    while queue:
        name = queue.pop()
        for other in units:
            body = without_cases(source[other.tokens[0].start : other.tokens[-1].end])
            if other is unit or not re.search(rf"\b{name}\b", body):
                continue
            if other.op and other.op not in ops:
                ops.append(other.op)
            if not other.op and not other.public and other.name not in reached:
                reached.add(other.name)
                queue.append(other.name)
    return ops


def rules_of(unit):
    """Token ranges of the bodies that take a Vjp."""
    tokens = unit.tokens
    for i in range(len(tokens) - 4):
        if tokens[i].text == "Vjp" and tokens[i + 1].text == "&" and tokens[i + 2].kind == "name":
            j = i
            while j < len(tokens) and tokens[j].text not in ("{", ";", "="):
                j += 1
            if j < len(tokens) and tokens[j].text == "{":
                yield tokens[i + 2].text, tokens[j + 1 : closing(tokens, j)]


def semicolon(tokens, i):
    """Index of the next one that is in no bracket."""
    while tokens[i].text != ";":
        i = closing(tokens, i) + 1 if tokens[i].text in "([{" and tokens[i].kind == "mark" else i + 1
    return i


def composites_of(unit, source):
    """Token ranges of the bodies of composites, and of private functions that give a tensor."""
    tokens = unit.tokens
    if not unit.op:
        head = re.match(r"(?:template\s*<[^\n]*>\s*\n)?Tensor \w+\(([^{;]*)", source[tokens[0].start :])
        if head and not unit.public and "Inputs" not in head.group(1):  # those are cases
            start = next((i for i, t in enumerate(tokens) if t.text == "{"), None)
            if start is not None:
                yield tokens[start + 1 : closing(tokens, start)]
        return
    for i in range(len(tokens) - 4):
        texts = [t.text for t in tokens[i : i + 3]]
        if texts == ["composite", "=", "["] or texts == ["const", "Run", "&"]:
            start = next(j for j in range(i, len(tokens)) if tokens[j].text == "{")
            yield tokens[start + 1 : closing(tokens, start)]


class File:
    """A source with all its faults planted."""

    def __init__(self, path, first, wanted):
        self.path, self.source = path, path.read_text()
        self.mutants, self.edits, self.next = [], [], first
        units = units_of(self.source)
        self.ops = [unit.op for unit in units if unit.op]
        self.with_rules = set()
        for unit in units:
            for b, body in rules_of(unit):
                ops = ops_of(unit, units, self.source)
                self.with_rules.update(ops)
                ops = [op for op in ops if not wanted or op in wanted]
                if ops:
                    self.plant_in_rule(b, body, ops)
            for body in composites_of(unit, self.source):
                ops = ops_of(unit, units, self.source)
                self.with_rules.update(ops)
                ops = [op for op in ops if not wanted or op in wanted]
                if ops:
                    self.plant_in_composite(body, ops)

    def plant_in_rule(self, b, body, ops):
        text = self.source[body[0].start : body[-1].end]
        inputs = set(re.findall(rf"\b{b}\.(?:input|input_shape)\((\d)\)", text))
        targets = set(re.findall(rf"\b{b}\.to\((\d)", text))
        i = 0
        while i < len(body):
            if body[i].text == b and i + 3 < len(body) and body[i + 1].text == "." and body[i + 2].text == "to":
                close = closing(body, i + 3)
                arguments = split_at_commas(body[i + 4 : close])
                self.plant_in_call(body[i].start, body[close].end, arguments, ops, inputs, targets)
                i = close
            elif body[i].text == "Tensor" and i > 0 and body[i - 1].text == "const" and i + 2 < len(body) and body[i + 2].text == "=":
                end = self.plant_in_declaration(body, i, ops, inputs)
                i = end
            i += 1

    def plant_in_composite(self, body, ops):
        text = self.source[body[0].start : body[-1].end]
        inputs = set(re.findall(r"\br\.in\((\d)\)", text))
        i = 0
        while i < len(body):
            end = i
            if body[i].text == "return":
                end = semicolon(body, i)
                self.plant_in_value(body[i + 1 : end], ops, inputs)
            elif body[i].text == "Tensor" and i + 2 < len(body) and body[i + 2].text == "=":
                end = self.plant_in_declaration(body, i, ops, inputs)
            elif body[i].kind == "name" and i + 1 < len(body) and body[i + 1].text == "=" and (i == 0 or body[i - 1].text in (";", "{", "}", ")", "else")):
                end = semicolon(body, i)
                self.plant_in_value(body[i + 2 : end], ops, inputs)
            i = end + 1

    def plant_in_declaration(self, body, i, ops, inputs):
        end = semicolon(body, i)
        for declared in split_at_commas(body[i + 1 : end]):
            if len(declared) > 2 and declared[1].text == "=":
                self.plant_in_value(declared[2:], ops, inputs)
        return end

    def add(self, start, ops, rule, what):
        mutant = Mutant(self.next, self.path.name, self.source.count("\n", 0, start) + 1, ops, " ".join(rule.split()), " ".join(what.split()))
        self.mutants.append(mutant)
        self.next += 1
        return mutant.number

    def plant_in_value(self, tokens, ops, inputs):
        start, end = tokens[0].start, tokens[-1].end
        planted = [(self.add(start, ops, self.source[start:end], what), text) for what, text in faults(self.source, start, end, inputs)]
        self.edits.append((start, end, planted, None))

    def plant_in_call(self, start, end, arguments, ops, inputs, targets):
        if len(arguments) != 2:
            return
        rule = self.source[start:end]
        dropped = self.add(start, ops, rule, "not sent")
        index = arguments[0]
        others = [(self.add(start, ops, rule, f"sent to input {to}"), to) for to in sorted(targets) if index[0].kind == "number" and to != index[0].text]
        self.edits.append((start, start, [], f"if (!mutant({dropped})) "))
        if others:
            self.edits.append((index[0].start, index[-1].end, [(n, to) for n, to in others], "int"))
        self.plant_in_value(arguments[1], ops, inputs)

    def text(self, kind_of=None):
        """The source with the faults that compile. A fault stands on a line of its own, which tells it from others in errors."""
        out = self.source
        for start, end, planted, extra in sorted(self.edits, key=lambda e: (e[0], e[1]), reverse=True):
            if extra is not None and extra != "int":
                out = out[:start] + extra + out[start:]
                continue
            type_name = "int" if extra == "int" else "gradus::Tensor"
            valid = {m.number for m in self.mutants if m.state != "invalid"}
            if not any(n in valid for n, _ in planted):
                continue
            head = "".join(f"mutant({n}) ?\n/*mutant {n}*/ {type_name}({' '.join(text.split())})\n: " for n, text in planted if n in valid)
            # An error in the line of the unchanged expression says that it is no tensor: no fault of the place can stand.
            place = f"/*mutant {' '.join(str(n) for n, _ in planted)}*/ "
            out = out[:start] + f"({head}\n{place}{type_name}({out[start:end]}))" + out[end:]
        if self.path.name == "core_ops.cpp":
            out = re.sub(r"(\nnamespace gradus \{)", lambda m: CORE_ARITHMETIC + m.group(1), out, count=1)
        return SWITCH + out


class Build:
    def __init__(self, folder):
        self.folder, self.work = folder, folder / "mutation"
        self.work.mkdir(exist_ok=True)
        self.compile_commands = {c["file"]: c for c in json.loads((folder / "compile_commands.json").read_text())}

    def compile(self, file):
        """Compiles a file with its faults; those that are no C++ are set aside. The object, or None when nothing is left."""
        source, target = self.work / file.path.name, self.work / (file.path.name + ".o")
        command = self.compile_commands[str(file.path)]["command"]
        # Faults are many and their code runs little.
        command = re.sub(r" -o \S+", f" -w -O1 -o {target}", command).replace(f"-c {file.path}", f"-c {source}")
        for _ in range(20):
            source.write_text(file.text())
            run = subprocess.run(command, shell=True, cwd=self.folder, capture_output=True, text=True)
            if run.returncode == 0:
                return target
            lines = source.read_text().splitlines()
            numbers = set()
            for line in re.findall(rf"{re.escape(file.path.name)}:(\d+):", run.stderr):
                numbers.update(int(n) for found in re.findall(r"^/\*mutant ([\d ]+)\*/", lines[int(line) - 1]) for n in found.split())
            fresh = [m for m in file.mutants if m.number in numbers and m.state != "invalid"]
            if not fresh:
                sys.exit(f"{file.path}: does not compile with its faults:\n{run.stderr[:4000]}")
            for mutant in fresh:
                mutant.state = "invalid"
        sys.exit(f"{file.path}: too many attempts")

    def link(self, target, objects):
        """The program `target` with these objects before the libraries, which then are not asked for them."""
        commands = subprocess.run(["ninja", "-C", self.folder, "-t", "commands", target], capture_output=True, text=True, check=True).stdout.splitlines()
        command = commands[-1].split(" && ")[1]
        program = self.work / Path(target).name
        command = command.replace(f" -o {target} ", f" -o {program} " + " ".join(map(str, objects)) + " ")
        subprocess.run(command, shell=True, cwd=self.folder, check=True)
        return program


def run_one(command, number, seconds):
    """(passed, output) of a command with one fault awake."""
    try:
        run = subprocess.run(command, env={**os.environ, "GRADUS_MUTANT": str(number)}, capture_output=True, text=True, timeout=seconds)
        return run.returncode == 0, run.stdout
    except subprocess.TimeoutExpired:
        return False, "FAIL  timeout"


def judge(mutant, check, tests):
    passed, output = run_one([check, "check", *mutant.ops], mutant.number, 120)
    if not passed:
        first = next((line for line in output.splitlines() if line.startswith("FAIL")), "")
        return "killed", " ".join(re.split(r"\s{2,}|\s(?=\d+ case)", first)[1:3]) or "crash"
    passed, output = run_one([tests, "~[ops]"], mutant.number, 300)
    if not passed:
        failed = [line for line in output.splitlines() if re.match(r"^[a-z_0-9]+$", line)]
        return "killed", failed[0] if failed else "tests"
    return "survived", ""


def set_equivalent_aside(mutants):
    """Marks the faults of equivalent.txt (a fault of * is all of a rule's); one that is not planted any more is an error."""
    for line in (Path(__file__).parent / "equivalent.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        op, rule, what, _ = line.split(" | ")
        found = [m for m in mutants if op in m.ops and m.rule == rule and what in (m.what, "*")]
        if not found:
            sys.exit(f"equivalent.txt: no such fault: {line}")
        for mutant in found:
            mutant.state = "equivalent"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ops", nargs="*", help="only the rules of these ops (default: all)")
    parser.add_argument("--build", type=Path, default=ROOT / "build/release", help="build folder (default: build/release)")
    parser.add_argument("--sample", type=int, help="only so many faults, drawn at random")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (default: 1)")
    parser.add_argument("--list", action="store_true", help="list the faults and stop")
    parser.add_argument("--quiet", action="store_true", help="print survivors and the summary only")
    parser.add_argument("--json", type=Path, help="also write all of it to this file")
    options = parser.parse_args()

    paths = [*sorted((ROOT / "engine/ops").glob("*.cpp")), ROOT / "engine/autograd/core_ops.cpp"]
    files, number = [], 1
    for path in paths:
        file = File(path, number, set(options.ops))
        number = file.next
        files.append(file)
    known = {op for file in files for op in file.ops}
    unknown = set(options.ops) - known
    if unknown:
        parser.error(f"no op named {', '.join(sorted(unknown))}")
    if not options.ops:
        set_equivalent_aside([m for file in files for m in file.mutants])
    if options.list:
        for file in files:
            for m in file.mutants:
                print(f"{m.file}:{m.line}  {','.join(m.ops)}  {m.rule}  ->  {m.what}")
        return 0

    build = Build(options.build.resolve())
    mutated = [file for file in files if file.mutants]
    objects = [build.compile(file) for file in mutated]
    check, tests = build.link("tools/gradus", objects), build.link("tests/test_ops", objects)
    concerned = sorted({op for file in mutated for m in file.mutants for op in m.ops})
    for command in ([check, "check", *concerned], [tests, "~[ops]"]):
        passed, output = run_one(command, 0, 600)
        if not passed:
            sys.exit(f"fails with no fault awake: {command[0]}\n{output[-3000:]}")

    mutants = [m for file in files for m in file.mutants]
    valid = [m for m in mutants if not m.state]
    if options.sample:
        valid = sorted(random.Random(options.seed).sample(valid, min(options.sample, len(valid))), key=lambda m: m.number)
    for m in valid:
        m.state, m.by = judge(m, check, tests)
        if not options.quiet or m.state == "survived":
            print(f"{m.state:<9} {m.file}:{m.line}  {','.join(m.ops)}  {m.rule}  ->  {m.what}{'  [' + m.by + ']' if m.by else ''}", flush=True)
    survivors = [m for m in valid if m.state == "survived"]
    without = sorted(known - {op for file in files for op in file.with_rules})
    print(f"\n{len(valid)} faults in the rules of {len({op for m in valid for op in m.ops})} ops: {len(valid) - len(survivors)} killed, {len(survivors)} survived")
    counts = [sum(m.state == state for m in mutants) for state in ("invalid", "equivalent", "")]
    print("not run: {} that are no C++, {} that change nothing, {} not drawn".format(*counts))
    print(f"{len(without)} ops have no rule of their own: {', '.join(without)}")
    if options.json:
        options.json.write_text(json.dumps([vars(m) for m in mutants], indent=1) + "\n")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())

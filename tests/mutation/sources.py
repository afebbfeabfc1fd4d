"""The sources of the engine's ops: which functions make up the rules of which op, and the faults planted there."""

import re
from dataclasses import dataclass
from pathlib import Path

from expressions import closing, faults, split_at_commas, tokenize

SWITCH = """#ifndef GRADUS_MUTANTS
#define GRADUS_MUTANTS
#include <cstdlib>
#include <type_traits>
static const int awake_mutant = std::getenv("GRADUS_MUTANT") ? std::atoi(std::getenv("GRADUS_MUTANT")) : 0;
static inline bool mutant(int number) { return awake_mutant == number; }
template <class V>
static inline V mutant_negative(const V& v) {
  static_assert(!std::is_same_v<V, bool>);
  return -v;
}
template <class V>
static inline V mutant_percent(const V& v) {
  static_assert(!std::is_integral_v<V> && !std::is_pointer_v<V>);
  return v + v / V(100);
}
#endif
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
BACKWARD = re.compile(r"backward|gradient|slope")  # in the names of what computes one


@dataclass
class Mutant:
    number: int
    file: str
    line: int
    ops: list
    rule: str  # the text that is changed
    what: str
    fused: bool  # part of a fused backward
    state: str = ""  # killed, survived, invalid, equivalent
    by: str = ""


@dataclass
class Unit:
    """A definition at namespace level."""

    name: str
    tokens: list
    text: str
    op: str = ""  # of an OpDef: the op's name
    public: bool = False
    shared: bool = False  # of gradus::define: for other files of engine/ops


@dataclass
class Edit:
    """The faults planted in [start, end), each a text of this type in its place; or a text put before it."""

    start: int
    end: int
    planted: list
    type_name: str = "gradus::Tensor"
    before: str = ""
    in_macro: bool = False


def units_of(source):
    """The definitions of a file, in order. Braces of namespaces do not count."""
    tokens = tokenize(re.sub(r"^[ \t]*#.*$", lambda m: " " * len(m.group()), source, flags=re.M))
    units, i, start, shared = [], 0, 0, False
    while i < len(tokens):
        text, mark = tokens[i].text, tokens[i].kind == "mark"
        if text == "namespace" or (text == "using" and tokens[i + 1].text == "namespace"):
            while tokens[i].text not in "{;":
                shared = shared or tokens[i].text == "gradus::define"
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
        unit.shared = unit.public and (shared or re.search(rf"\bdefine::{unit.name}\s*\(", unit.text.split("{")[0]) is not None)
    return units


def is_initialised(tokens):
    """True within `const OpDef x = {...}...;`, which ends at its semicolon."""
    return any(t.text == "=" for t in tokens[:4]) or any(t.text == "OpDef" and i < 3 and tokens[i - 1].text == "const" for i, t in enumerate(tokens[:4]))


def unit_of(source, tokens):
    if len(tokens) < 3:
        return None
    text = source[tokens[0].start : tokens[-1].end]
    match = re.match(r"(?:static\s+)?(?:inline\s+)?const OpDef (\w+)\s*=\s", text)
    if match:
        name = re.search(r'\.name\s*=\s*"(\w+)"', text) or re.search(r'[(\s]"(\w+)"', text)
        return Unit(match.group(1), tokens, text, name.group(1) if name else match.group(1))
    match = re.search(r"(\w+)\s*\(", re.sub(r"^(template\s*<[^\n]*>\s*|\[\[\w+\]\]\s*)*", "", text))
    return Unit(match.group(1), tokens, text) if match else None


def without_cases(body):
    """A definition less what builds its cases, and nothing of a function that does so: what stands there is no rule."""
    if "std::vector<OpCase>" in body.split("{")[0]:
        return ""
    body = re.sub(r"\.cases\s*=.*", "", body, flags=re.S)
    body = re.sub(r"\[\]\s*(\(\))?\s*\{(?=[^;]*OpCase|\s*(constexpr|auto|const)[^;]*;\s*(auto|return)[^;]*cases).*", "", body, flags=re.S)
    return re.sub(r"\b(cases_\w+|\w+_cases)<[^;]*", "", body)


def semicolon(tokens, i):
    """Index of the next one that is in no bracket, or of the bracket that ends what i is in."""
    while i < len(tokens) and tokens[i].text != ";" and not (tokens[i].kind == "mark" and tokens[i].text in ")]}"):
        i = closing(tokens, i) + 1 if tokens[i].text in "([{" and tokens[i].kind == "mark" else i + 1
    return i


def rules_of(unit):
    """(name of the Vjp, body, whether fused) of the functions that take a Vjp."""
    tokens = unit.tokens
    for i in range(len(tokens) - 4):
        if tokens[i].text == "Vjp" and tokens[i + 1].text == "&" and tokens[i + 2].kind == "name":
            j = i
            while j < len(tokens) and tokens[j].text not in ("{", ";", "="):
                j += 1
            if j < len(tokens) and tokens[j].text == "{":
                before = "".join(t.text for t in tokens[max(0, i - 6) : i])
                yield tokens[i + 2].text, tokens[j + 1 : closing(tokens, j)], "fused" in before or unit.name == "fused_vjp_rows"


def composites_of(unit, results):
    """Bodies of composites, and of private or shared functions that give a tensor or a struct of tensors (`results`)."""
    tokens = unit.tokens
    if not unit.op:
        head = re.match(r"(?:template\s*<[^\n]*>\s*\n)?(?:\[\[nodiscard\]\] )?(?:inline )?(?:define::)?(\w+) (?:define::)?\w+\(([^{;]*)", unit.text)
        if head and head.group(1) in results and (unit.shared or not unit.public) and "Inputs x" not in head.group(2):  # those are cases
            start = next((i for i, t in enumerate(tokens) if t.text == "{"), None)
            if start is not None:
                yield tokens[start + 1 : closing(tokens, start)]
        return
    for i in range(5, len(tokens) - 4):
        before, texts = "".join(t.text for t in tokens[i - 5 : i]), [t.text for t in tokens[i : i + 2]]
        if texts == ["Run", "&"] and not before.startswith(("shape=", "forward=")):
            start = next(j for j in range(i, len(tokens)) if tokens[j].text == "{")
            body = tokens[start + 1 : closing(tokens, start)]
            if any(t.text == "return" and body[j + 1].text != ";" for j, t in enumerate(body)):  # else a shape rule
                yield body


def function_body(tokens, name):
    """Of the function of this name that is defined, not called."""
    for i in range(1, len(tokens) - 1):
        if tokens[i].text == name and tokens[i + 1].text == "(" and (tokens[i - 1].kind == "name" or tokens[i - 1].text in ">*&"):
            j = closing(tokens, i + 1) + 1
            while j < len(tokens) and tokens[j].text in ("const", "noexcept"):
                j += 1
            if j < len(tokens) and tokens[j].text == "{":
                return tokens[j + 1 : closing(tokens, j)]
    return None


class File:
    """A source with all its faults planted."""

    def __init__(self, root, path):
        self.path, self.name, self.source = path, str(path.relative_to(root)), path.read_text()
        self.units = units_of(self.source) if "kernels" not in path.parts else []
        self.mutants, self.edits = [], []
        self.fused = False  # what is being planted is part of a fused backward

    # ---- rules in tensors ----------------------------------------------------------------------------------------------

    def plant_in_rule(self, b, body, ops):
        text = self.source[body[0].start : body[-1].end]
        inputs = set(re.findall(rf"\b{b}\.(?:input|input_shape)\((\d)\)", text))
        targets = set(re.findall(rf"\b{b}\.to\((\d)", text))
        i = 0
        while i < len(body):
            if body[i].text == b and i + 3 < len(body) and body[i + 1].text == "." and body[i + 2].text == "to":
                close = closing(body, i + 3)
                self.plant_in_call(body[i].start, body[close].end, split_at_commas(body[i + 4 : close]), ops, inputs, targets)
                i = close
            elif body[i].text == "Tensor" and i + 2 < len(body) and body[i + 2].text == "=":
                i = self.plant_in_declaration(body, i, ops, inputs)
            elif is_assignment(body, i):
                end = semicolon(body, i)
                self.plant_in_value(body[i + 2 : end], ops, inputs)
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
                value = body[i + 1 : end]
                if value and value[0].text == "{" and closing(value, 0) == len(value) - 1:
                    for part in split_at_commas(value[1:-1]):
                        self.plant_in_value(part, ops, inputs)
                else:
                    self.plant_in_value(value, ops, inputs)
            elif body[i].text == "Tensor" and i + 2 < len(body) and body[i + 2].text == "=":
                end = self.plant_in_declaration(body, i, ops, inputs)
            elif is_assignment(body, i):
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
        mutant = Mutant(0, self.name, self.source.count("\n", 0, start) + 1, ops, " ".join(rule.split()), " ".join(what.split()), self.fused)
        self.mutants.append(mutant)
        return mutant

    def plant_in_value(self, tokens, ops, inputs=frozenset(), numeric="", in_macro=False):
        if not tokens or any(edit.start == tokens[0].start and edit.end == tokens[-1].end and not edit.before for edit in self.edits):
            return
        start, end = tokens[0].start, tokens[-1].end
        if self.source.startswith("Tensor::empty(", start):  # what is in it does not matter
            return
        planted = [(self.add(start, ops, self.source[start:end], what), text) for what, text in faults(self.source, start, end, inputs, bool(numeric))]
        self.edits.append(Edit(start, end, planted, numeric or "gradus::Tensor", in_macro=in_macro))

    def plant_in_call(self, start, end, arguments, ops, inputs, targets):
        if len(arguments) != 2:
            return
        rule = self.source[start:end]
        self.edits.append(Edit(start, start, [], before=self.add(start, ops, rule, "not sent")))
        index = arguments[0]
        others = [(self.add(start, ops, rule, f"sent to input {to}"), to) for to in sorted(targets) if index[0].kind == "number" and to != index[0].text]
        if others:
            self.edits.append(Edit(index[0].start, index[-1].end, others, "int"))
        self.plant_in_value(arguments[1], ops, inputs)

    # ---- loops and kernels ----------------------------------------------------------------------------------------------

    def plant_in_kernel(self, function, ops):
        """In a function of numbers; false if there is none of that name."""
        macro = re.search(rf"  X\({function}, (.*)\)\s*\\?$", self.source, flags=re.M)
        if macro:
            self.plant_in_value(shifted(tokenize(macro.group(1)), macro.start(1)), ops, numeric="Vec<T>", in_macro=True)
            return True
        body = function_body(tokenize(blanked(self.source)), function)
        if body:
            self.plant_in_numbers(body, ops)
        return body is not None

    def plant_in_numbers(self, body, ops):
        i = 0
        while i < len(body):
            text, following = body[i].text, body[i + 1].text if i + 1 < len(body) else ""
            if text == "for" and following == "(":
                i = closing(body, i + 1)
            elif text == "return":
                self.plant_in_number(body[i + 1 : semicolon(body, i)], ops)
            elif text in ("T", "double", "Vec") and following != "(":
                j = i + 1
                if following == "<":
                    while body[j].text != ">":
                        j += 1
                    j += 1
                if j + 1 < len(body) and body[j].kind == "name" and body[j + 1].text in ("=", "("):
                    for declared in split_at_commas(body[j : semicolon(body, j)]):
                        if len(declared) > 2 and declared[1].text == "=":
                            self.plant_in_number(declared[2:], ops)
            elif body[i].kind == "mark" and text in ("=", "+=", "-=", "*=", "/=") and i > 0 and not is_declared(body, i):
                value = body[i + 1 : semicolon(body, i + 1)]
                if i > 2 and body[i - 2].text == "." and body[i - 3].text in "{,":  # of one member in a list
                    value = split_at_commas(value)[0]
                self.plant_in_number(value, ops)
                if text in ("+=", "-="):
                    self.plant_nothing(value, ops)
            elif text in ("set", "store", "store_partial", "put", "put_beside", "put_row") and following == "(":
                for argument in split_at_commas(body[i + 2 : closing(body, i + 1)])[: 2 if text == "store_partial" else 3]:
                    if len(argument) > 1:
                        self.plant_in_number(argument, ops)
            i += 1

    def plant_in_number(self, tokens, ops):
        if tokens and tokens[0].text not in ("{", "["):
            text = self.source[tokens[0].start : tokens[-1].end]
            self.plant_in_value(tokens, ops, numeric=f"std::decay_t<decltype({' '.join(text.split())})>")

    def plant_nothing(self, tokens, ops):
        """What is added is left out."""
        for edit in self.edits:
            if edit.planted and edit.start == tokens[0].start and edit.end == tokens[-1].end:
                rule = self.source[edit.start : edit.end]
                edit.planted.append((self.add(edit.start, ops, rule, "nothing"), f"{edit.type_name}(0)"))

    # ---- the outcome ------------------------------------------------------------------------------------------------------

    def render(self, start, end, edits):
        """The source of [start, end) with edits, the outer of nested ones first."""
        out, at = "", start
        while edits:
            edit = edits.pop(0)
            inside = []
            while edits and edits[0].end <= edit.end and edits[0].start < edit.end:
                inside.append(edits.pop(0))
            out += self.source[at : edit.start]
            if edit.before:
                out += f"if (!mutant({edit.before.number})) "
            else:
                valid = [(m.number, " ".join(text.split())) for m, text in edit.planted if m.state != "invalid"]
                line = "\\\n" if edit.in_macro else "\n"
                head = "".join(f"mutant({n}) ?{line}/*mutant {n}*/ {edit.type_name}({text}){line}: " for n, text in valid)
                inner = self.render(edit.start, edit.end, inside)
                out += f"({head}{edit.type_name}({inner}))" if head else inner
            at = edit.end
        return out + self.source[at:end]

    def text(self):
        """The source with the faults that compile. A fault stands on a line of its own, which tells it from others in errors."""
        out = self.render(0, len(self.source), sorted(self.edits, key=lambda e: (e.start, not e.before, -e.end)))
        if self.path.name == "core_ops.cpp":
            out = re.sub(r"(\nnamespace gradus \{)", lambda m: CORE_ARITHMETIC + m.group(1), out, count=1)
        return out.replace("#pragma once\n", "#pragma once\n" + SWITCH, 1) if self.path.suffix == ".hpp" else SWITCH + out


def blanked(source):
    """Without preprocessor lines, all else in its place."""
    return re.sub(r"^[ \t]*#.*$", lambda m: " " * len(m.group()), source, flags=re.M)


def shifted(tokens, offset):
    for token in tokens:
        token.start += offset
        token.end += offset
    return tokens


def is_assignment(body, i):
    """True at the last name of `x = ` or `x.y = ` that begins a statement."""
    if body[i].kind != "name" or i + 1 >= len(body) or body[i + 1].text != "=":
        return False
    while i > 1 and body[i - 1].text == ".":
        i -= 2
    return i == 0 or body[i - 1].text in (";", "{", "}", ")", "else")


def is_declared(body, i):
    """True at the `=` of a declaration."""
    return body[i].text == "=" and body[i - 1].kind == "name" and i > 1 and (body[i - 2].kind == "name" or body[i - 2].text in ("&", "*", ">", ",")) and body[i - 2].text != "else"


class Project:
    """All files with rules and kernels, their faults planted in those that concern the wanted ops (all if none is)."""

    def __init__(self, root, wanted):
        paths = [*sorted((root / "engine/ops").glob("*.cpp")), *sorted((root / "engine/ops").glob("*.hpp")), root / "engine/autograd/core_ops.cpp"]
        kernels = [line.split(" | ") for line in (Path(__file__).parent / "kernels.txt").read_text().splitlines() if line and not line.startswith("#")]
        paths += sorted({root / file for file, _, _ in kernels} - set(paths))
        self.files = [File(root, path) for path in paths]
        self.ops = {unit.op for file in self.files for unit in file.units if unit.op}
        self.with_rules, self.with_fused = set(), set()
        structs = {m for file in self.files for m in re.findall(r"struct (\w+) \{\s*(?:bool \w+;\s*)?Tensor ", file.source)}
        self.results = {"Tensor", *structs}
        for file in self.files:
            for unit in file.units:
                self.plant(file, unit, wanted)
        for name, function, ops in kernels:
            file = next(f for f in self.files if f.name == name)
            self.with_fused.update(ops.split())
            ops = [op for op in ops.split() if not wanted or op in wanted]
            file.fused = True
            if ops and not file.plant_in_kernel(function, ops):
                raise SystemExit(f"kernels.txt: {name} has no {function}")
        self.require_listed({(name, function) for name, function, _ in kernels}, root)
        # Numbers of one file do not depend on others, so that what is unchanged need not be compiled again.
        for first, file in enumerate(self.files, 1):
            for i, mutant in enumerate(file.mutants):
                mutant.number = 10000 * first + i

    def plant(self, file, unit, wanted):
        bodies = [(file.plant_in_rule, b, body, fused) for b, body, fused in rules_of(unit)]
        bodies += [(None, "", body, False) for body in composites_of(unit, self.results)]
        if not bodies:
            return
        ops = self.ops_of(file, unit)
        self.with_rules.update(ops)
        self.with_fused.update(ops if any(fused for _, _, _, fused in bodies) else [])
        ops = [op for op in ops if not wanted or op in wanted]
        for plant, b, body, fused in bodies if ops else []:
            if not body:
                continue
            file.fused = fused
            if plant:
                plant(b, body, ops)
            else:
                file.plant_in_composite(body, ops)
            if fused:
                file.plant_in_numbers(body, ops)
            file.fused = False

    def ops_of(self, file, unit):
        """The ops whose definitions, or the public functions that apply them, use the unit, directly or through other functions."""
        if unit.op:
            return [unit.op]
        reached, queue, ops = {(file.name, unit.name)}, [(file, unit)], []
        while queue:
            here, used = queue.pop()
            for there in self.files:
                if there is not here and not (used.shared and f'"engine/ops/{here.path.stem}.hpp"' in there.source):
                    continue
                for other in there.units:
                    if other is used or not re.search(rf"\b{used.name}\b", without_cases(other.text)):
                        continue
                    applied = [other.op] if other.op else [] if other.shared or not other.public else self.applied_by(there, other)
                    ops += [op for op in applied if op not in ops]
                    if not other.op and (other.shared or not other.public) and (there.name, other.name) not in reached:
                        reached.add((there.name, other.name))
                        queue.append((there, other))
        return ops

    def applied_by(self, file, unit):
        """The ops of the file that a public function applies, directly or through private ones."""
        reached, queue, ops = {unit.name}, [unit], []
        while queue:
            text = without_cases(queue.pop().text)
            for other in file.units:
                if other.public or other.name in reached or not re.search(rf"\b{other.name}\b", text):
                    continue
                reached.add(other.name)
                if other.op:
                    ops.append(other.op)
                else:
                    queue.append(other)
        return ops

    def require_listed(self, listed, root):
        """Every function of numbers whose name speaks of a backward pass is in kernels.txt."""
        for path in sorted([*(root / "engine/ops").glob("*.[ch]pp"), *(root / "engine/kernels").glob("*.[ch]pp")]):
            name = str(path.relative_to(root))
            for head in re.finditer(r"^ *(?:GRADUS_INLINE |static |inline )*(void|T|Vec<T>|double) (\w+)\(([^;{]*)\) (?:const )?\{", path.read_text(), flags=re.M):
                if BACKWARD.search(head.group(2)) and "Vjp&" not in head.group(3) and (name, head.group(2)) not in listed:
                    raise SystemExit(f"kernels.txt lacks {name}: {head.group(2)}")

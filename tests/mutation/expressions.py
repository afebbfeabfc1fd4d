"""Enough of C++ to change the expressions of gradient rules: a tokenizer, a parser of expressions, and the faults to plant."""

import re
from dataclasses import dataclass, field

TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)|(?P<string>R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])+')"""
    r"""|(?P<number>\d[\w.']*(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_]\w*(?:\s*::\s*[A-Za-z_]\w*)*)|(?P<mark><<=|>>=|->|\+\+|--|&&|\|\||[=!<>+\-*/|&^%]=|::|.)""",
    re.S | re.X,
)
CLOSING = {"(": ")", "[": "]", "{": "}"}
PRECEDENCE = {"||": 1, "&&": 2, "|": 3, "==": 4, "!=": 4, "<": 5, ">": 5, "<=": 5, ">=": 5, "+": 6, "-": 6, "*": 7, "/": 7}
TEMPLATES = ("attr", "data", "static_cast", "mutable_data")  # names before a '<' that opens arguments


@dataclass
class Token:
    text: str
    start: int
    end: int
    kind: str


@dataclass
class Node:
    kind: str  # binary, minus, ternary, call, list, number, other
    start: int
    end: int
    text: str = ""  # operator or callee
    parts: list = field(default_factory=list)


def tokenize(source, offset=0):
    tokens, at = [], offset
    while at < len(source):
        match = TOKEN.match(source, at)
        if match.lastgroup != "space":
            tokens.append(Token(match.group(), match.start(), match.end(), match.lastgroup))
        at = match.end()
    return tokens


def closing(tokens, i):
    """Index of the bracket that closes the one at i."""
    depth = 0
    for j in range(i, len(tokens)):
        depth += (tokens[j].kind == "mark" and tokens[j].text in "([{") - (tokens[j].kind == "mark" and tokens[j].text in ")]}")
        if depth == 0:
            return j
    raise SyntaxError("an open bracket")


def split_at_commas(tokens):
    parts, start, i = [], 0, 0
    while i < len(tokens):
        if tokens[i].text in CLOSING and tokens[i].kind == "mark":
            i = closing(tokens, i)
        elif tokens[i].text == ",":
            parts.append(tokens[start:i])
            start = i + 1
        i += 1
    parts.append(tokens[start:])
    return [part for part in parts if part]


class Parser:
    """Of one expression: binary operators, unary minus, calls, braces, members. Anything else is a SyntaxError."""

    def __init__(self, tokens):
        self.tokens, self.i = tokens, 0

    def peek(self):
        return self.tokens[self.i].text if self.i < len(self.tokens) else ""

    def whole(self):
        node = self.ternary()
        if self.i != len(self.tokens):
            raise SyntaxError(f"unexpected {self.peek()}")
        return node

    def ternary(self):
        node = self.binary(0)
        if self.peek() != "?":
            return node
        self.i += 1
        first = self.ternary()
        if self.peek() != ":":
            raise SyntaxError("no ':'")
        self.i += 1
        second = self.ternary()
        return Node("ternary", node.start, second.end, parts=[node, first, second])

    def binary(self, least):
        left = self.unary()
        while PRECEDENCE.get(self.peek(), -1) > least:
            operator = self.peek()
            self.i += 1
            right = self.binary(PRECEDENCE[operator])
            left = Node("binary", left.start, right.end, operator, [left, right])
        return left

    def unary(self):
        if self.peek() in ("-", "!", "*", "&"):
            token = self.tokens[self.i]
            self.i += 1
            inner = self.unary()
            return Node("minus" if token.text == "-" else "other", token.start, inner.end, parts=[inner])
        return self.postfix()

    def arguments(self):
        """Of the bracket here; each may begin with a designator."""
        close = closing(self.tokens, self.i)
        parts = []
        for part in split_at_commas(self.tokens[self.i + 1 : close]):
            if len(part) > 3 and part[0].text == "." and part[2].text == "=":
                part = part[3:]
            parts.append(Parser(part).whole())
        end = self.tokens[close].end
        self.i = close + 1
        return parts, end

    def postfix(self):
        if self.i >= len(self.tokens):
            raise SyntaxError("an expression that ends early")
        token = self.tokens[self.i]
        if token.text == "(":
            parts, end = self.arguments()
            node = Node("other", token.start, end, parts=parts)
        elif token.text == "{":
            parts, end = self.arguments()
            node = Node("list", token.start, end, parts=parts)
        elif token.kind in ("name", "number", "string"):
            self.i += 1
            node = Node("number" if token.kind == "number" else "other", token.start, token.end, token.text)
        else:
            raise SyntaxError(f"unexpected {token.text}")
        while True:
            mark = self.peek()
            if mark == "<" and node.text.split(".")[-1].split("::")[-1].strip() in TEMPLATES:
                while self.peek() != ">":
                    self.i += 1
                self.i += 1
                node = Node("other", node.start, self.tokens[self.i - 1].end, node.text)
            elif mark in ("(", "[", "{"):
                parts, end = self.arguments()
                inside = ([node] if node.kind == "call" else node.parts) + parts
                node = Node("call" if mark == "(" and node.text else "other", node.start, end, node.text, inside if mark != "(" else parts)
            elif mark in (".", "->"):
                if self.i + 1 == len(self.tokens) or self.tokens[self.i + 1].kind != "name":
                    raise SyntaxError("a pack")
                name = self.tokens[self.i + 1]
                self.i += 2
                node = Node("other", node.start, name.end, f"{node.text}.{name.text}", [node] if node.kind == "call" else [])
            else:
                return node


SWAPPED = ("matmul", "sub", "div", "pow", "less", "greater")
# What changes at an edge alone, or tells one thing from its contrary.
RENAMED = {
    "equal_to": "not_equal",
    "not_equal": "equal_to",
    "greater": "greater_equal",
    "greater_equal": "greater",
    "less": "less_equal",
    "less_equal": "less",
    "maximum": "minimum",
    "minimum": "maximum",
    "fma": "fnma",
    "fnma": "fma",
}
COMPARED = {"==": "!=", "!=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">"}
# Functions whose integers are axes.
OF_AXES = ("unsqueeze", "squeeze", "transpose", "size", "gather", "scatter_add", "index_select", "select", "stack", "concat")


def other_axis(axis):
    return str(1 - axis if axis in (0, 1) else axis - 1 if axis > 0 else -2 if axis == -1 else axis + 1)


def faults(source, start, end, inputs, numeric=False):
    """Pairs (what, text): the expression at source[start:end] with one thing wrong in each. `inputs` are those the rule reads.
    Numbers and vectors of numbers (`numeric`) differ from tensors in how they are negated and scaled."""
    original = source[start:end]
    found = {}

    def plant(what, node, text):
        whole = source[start : node.start] + text + source[node.end : end]
        if whole != original and whole not in found:
            found[whole] = what

    def text_of(node):
        return source[node.start : node.end]

    def visit_binary(node):
        left, right = map(text_of, node.parts)
        if node.text in COMPARED:
            other = COMPARED[node.text]
        else:
            plant(f"{left} for {text_of(node)}", node, f"({left})")
            if node.text != "/":
                plant(f"{right} for {text_of(node)}", node, f"({right})")
            other = {"+": "-", "-": "+", "/": "*", "*": "/", "&&": "||", "||": "&&"}.get(node.text)
        if other:
            plant(f"'{other}' for '{node.text}' in {text_of(node)}", node, f"({left} {other} {right})")

    def visit_call(node):
        name, arguments = node.text.split("::")[-1].strip(), [text_of(part) for part in node.parts]
        if len(arguments) == 1 and "." not in name and "static_cast" not in name and name not in (*OF_AXES, "Vec", "T"):
            plant(f"{arguments[0]} for {text_of(node)}", node, f"({arguments[0]})")
        if name in ("where", "select") and len(arguments) == 3:
            for branch in arguments[1:]:
                plant(f"{branch} for {text_of(node)}", node, f"({branch})")
        if name in ("unless_zero", "zero_where"):
            plant(f"{arguments[1]} for {text_of(node)}", node, f"({arguments[1]})")
        if name in ("fma", "fnma") and len(arguments) == 3:
            plant(f"{arguments[2]} for {text_of(node)}", node, f"({arguments[2]})")
        if name in RENAMED:
            plant(f"{RENAMED[name]} for {name}", node, text_of(node).replace(name, RENAMED[name], 1))
        if len(arguments) == 2 and (name in SWAPPED or numeric and all(re.fullmatch(r"[a-z]", a) for a in arguments)):
            plant(f"{name} of swapped arguments", node, f"{name}({arguments[1]}, {arguments[0]})")
        if name == "transpose" and len(arguments) == 3:
            plant(f"{arguments[0]} for {text_of(node)}", node, f"({arguments[0]})")
        if name.split(".")[-1] in OF_AXES:
            for part in node.parts:
                if re.fullmatch(r"-?[0-9]", text_of(part)):
                    plant(f"axis {other_axis(int(text_of(part)))} in {text_of(node)}", part, other_axis(int(text_of(part))))
        if name.endswith((".input", ".in")) and len(arguments) == 1:
            for other in sorted(inputs - {arguments[0]}):
                plant(f"input {other} for {arguments[0]}", node, text_of(node).replace(f"({arguments[0]})", f"({other})"))

    def visit(node):
        if node.kind == "binary":
            visit_binary(node)
        elif node.kind == "minus":
            if not (node.parts[0].kind == "number" and "." not in node.parts[0].text):  # an axis
                plant(f"{text_of(node.parts[0])} for {text_of(node)}", node, f"({text_of(node.parts[0])})")
        elif node.kind == "ternary":
            for branch in node.parts[1:]:
                plant(f"{text_of(branch)} for {text_of(node)}", node, f"({text_of(branch)})")
        elif node.kind == "call":
            visit_call(node)
        elif node.kind == "number" and ("." in node.text) and float(node.text.rstrip("fF")) != 0:
            plant(f"{node.text} off by a percent", node, f"(1.01 * {node.text})")
        elif node.kind == "list":
            for part in node.parts:
                if re.fullmatch(r"-?[0-9]", text_of(part)):
                    plant(f"axis {other_axis(int(text_of(part)))} for {text_of(part)}", part, other_axis(int(text_of(part))))
        # Counts of lanes are left to the sanitizers: what they spoil is memory beyond a row, not its numbers.
        of_lanes = node.kind == "call" and node.text in ("load_partial", "store_partial")
        for part in node.parts[:1] if of_lanes else node.parts:
            visit(part)

    whole = Node("other", start, end)
    if not numeric or not re.fullmatch(r"(T|Vec<T>)?[({]*(T[({])?[0-9.]*[)}]*", original):  # a constant serves as a start or a guard
        plant("sign", whole, f"mutant_negative({original})" if numeric else f"-({original})")
        plant("off by a percent", whole, f"mutant_percent({original})" if numeric else f"1.01 * ({original})")
    try:
        tokens = [t for t in tokenize(source[:end], start)]
        visit(Parser(tokens).whole())
    except SyntaxError:
        pass
    return [(what, text) for text, what in found.items()]

#!/usr/bin/env python3
"""The work of gradus_work in PyTorch, on request: the protocol is that of bench/runner/main.cpp.

"variants KIND" answers the ways a kind of work is written here, of which "time SECONDS VARIANT KIND SIZES..." and
"peak VARIANT KIND SIZES..." run one: bench/compare keeps the fastest. GRADUS_THREADS sets the number of threads.
"""

import math
import os
import re
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(int(os.environ.get("GRADUS_THREADS", "1")))
torch.set_flush_denormal(True)

KINDS = {}


def kind(name, *variants):
    """Registers f(variant, *sizes), which returns the function to time."""

    def register(f):
        KINDS[name] = (f, variants or ("eager",))
        return f

    return register


def leaf(*shape, scale=1.0, dtype=torch.float32):
    return (torch.randn(*shape, dtype=dtype) * scale).requires_grad_()


def both_ways(f, *leaves):
    g = torch.randn_like(f().detach())

    def run():
        f().backward(g)
        for x in leaves:
            x.grad = None

    return run


def forward(f):
    def run():
        with torch.no_grad():
            f()

    return run


def train(loss, optimizer):
    def run():
        optimizer.zero_grad(set_to_none=True)
        loss().backward()
        optimizer.step()

    return run


def fused(parameters, which=torch.optim.Adam, **options):
    return which(parameters, fused=True, **options)


def compiled(variant, f):
    return torch.compile(f) if variant == "compile" else f


@kind("gemm")
def gemm(_, dtype, m, n, k, a_transposed, b_transposed, batch):
    t = torch.float32 if dtype == "f32" else torch.float64
    a = torch.randn(batch, k, m, dtype=t).transpose(1, 2) if a_transposed else torch.randn(batch, m, k, dtype=t)
    b = torch.randn(batch, n, k, dtype=t).transpose(1, 2) if b_transposed else torch.randn(batch, k, n, dtype=t)
    out = torch.empty(batch, m, n, dtype=t)
    if batch == 1:
        a, b, out = a[0], b[0], out[0]
        return forward(lambda: torch.mm(a, b, out=out))
    return forward(lambda: torch.bmm(a, b, out=out))


for _name, _f in (("exp", torch.exp), ("tanh", torch.tanh), ("gelu", F.gelu)):

    def _alone(_, n, f=_f):
        x = torch.randn(n)
        return forward(lambda: f(x))

    def _both(variant, n, f=_f):
        x = leaf(n)
        g = compiled(variant, f)
        return both_ways(lambda: g(x), x)

    KINDS[_name] = (_alone, ("eager",))
    KINDS[_name + "_both"] = (_both, ("eager", "compile"))


@kind("softmax", "eager", "compile")
def softmax(variant, rows, n):
    x = leaf(rows, n)
    f = compiled(variant, lambda x: torch.softmax(x, -1))
    return both_ways(lambda: f(x), x)


@kind("cross_entropy", "eager", "compile")
def cross_entropy(variant, rows, classes):
    x, t = leaf(rows, classes), torch.arange(rows) * 7919 % classes
    f = compiled(variant, F.cross_entropy)
    return both_ways(lambda: f(x, t), x)


@kind("layer_norm", "eager", "compile")
def layer_norm(variant, rows, n):
    x, w, b = leaf(rows, n), leaf(n), leaf(n)
    f = compiled(variant, lambda x, w, b: F.layer_norm(x, (n,), w, b))
    return both_ways(lambda: f(x, w, b), x, w, b)


@kind("rms_norm", "eager", "written_out", "compile")
def rms_norm(variant, rows, n):
    x, w = leaf(rows, n), leaf(n)

    def written_out(x, w):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w

    f = compiled(variant, written_out) if variant != "eager" else lambda x, w: F.rms_norm(x, (n,), w, 1e-6)
    return both_ways(lambda: f(x, w), x, w)


@kind("linear_gelu", "eager", "compile")
def linear_gelu(variant, rows, k, n):
    x, w, b = leaf(rows, k), leaf(n, k, scale=0.02), leaf(n)
    f = compiled(variant, lambda x, w, b: F.gelu(F.linear(x, w, b)))
    return both_ways(lambda: f(x, w, b), x, w, b)


@kind("conv2d", "contiguous", "channels_last")
def conv2d(variant, batch, c, o, size):
    form = torch.channels_last if variant == "channels_last" else torch.contiguous_format
    x = torch.randn(batch, c, size, size).to(memory_format=form).requires_grad_()
    w = torch.randn(o, c, 3, 3).to(memory_format=form).requires_grad_()
    b = leaf(o)
    return both_ways(lambda: F.conv2d(x, w, b, padding=1), x, w, b)


@kind("sum")
def sum_(_, rows, columns, axis):
    x = torch.randn(rows, columns)
    return forward(lambda: x.sum(axis))


@kind("max", "amax", "max")
def max_(variant, rows, columns, axis):
    x = torch.randn(rows, columns)
    return forward((lambda: x.amax(axis)) if variant == "amax" else (lambda: x.max(axis)))


@kind("transpose")
def transpose(_, n):
    x = torch.randn(n, n)
    return forward(lambda: x.t().contiguous())


@kind("tiny")
def tiny(_, count):
    x, one = leaf(16), torch.randn(16)

    def chain():
        y = x
        for _ in range(count):
            y = y + one
        return y

    return both_ways(chain, x)


def attend(variant, score, q, k, v):
    if score == "dot":
        if variant == "fused":
            return F.scaled_dot_product_attention(q, k, v)
        s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    elif variant == "fused":
        # -||q - k||^2 = 2 q.k - ||k||^2 - a constant of the row: one more coordinate makes it a dot product.
        one = torch.ones_like(q[..., :1])
        q, k = torch.cat([2 * q, one], -1), torch.cat([k, -(k * k).sum(-1, keepdim=True)], -1)
        return F.scaled_dot_product_attention(q, k, v, scale=1.0)
    else:
        s = 2 * q @ k.transpose(-1, -2) - (k * k).sum(-1).unsqueeze(-2)
    return torch.softmax(s, -1) @ v


@kind("attention", "fused", "written_out")
def attention(variant, score, t):
    q, k, v = (leaf(8, 8, t, 64) for _ in range(3))
    return both_ways(lambda: attend(variant, score, q, k, v), q, k, v)


@kind("attention_forward", "fused", "written_out")
def attention_forward(variant, score, t):
    q, k, v = (torch.randn(8, 8, t, 64) for _ in range(3))
    return forward(lambda: attend(variant, score, q, k, v))


@kind("mlp", "eager", "compile")
def mlp(variant, batch):
    m = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    x, t = torch.randn(batch, 64), torch.arange(batch) * 7919 % 10
    f = compiled(variant, lambda: F.cross_entropy(m(x), t))
    return train(f, fused(m.parameters(), torch.optim.AdamW))


class Encoder(nn.Module):
    def __init__(self, d, layers):
        super().__init__()
        self.embedding = nn.Embedding(1000, d)
        layer = nn.TransformerEncoderLayer(d, 4, 4 * d, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(d, 1000)

    def forward(self, ids):
        return F.cross_entropy(self.head(self.layers(self.embedding(ids))).flatten(0, 1), ids.flatten())


@kind("encoder", "eager", "compile")
def encoder(variant, batch, tokens, d, layers):
    m = Encoder(d, layers)
    ids = (torch.arange(batch * tokens) * 7919 % 1000).reshape(batch, tokens)
    f = compiled(variant, lambda: m(ids))
    return train(f, fused(m.parameters(), torch.optim.AdamW))


def squared_distances(a, b):
    return (a * a).sum(-1, keepdim=True) + (b * b).sum(-1).unsqueeze(-2) - 2 * a @ b.transpose(-1, -2)


@kind("paper1", "product", "fused", "cdist", "compile")
def paper1(variant, batch, n, d, k):
    width = d + k
    blocks = nn.ModuleList(nn.ModuleList(nn.Linear(width, width) for _ in range(3)) for _ in range(4))
    points = torch.rand(batch, n, d)
    x = F.pad(points, (0, k))
    c = torch.cat([points[:, :k], torch.eye(k).expand(batch, k, k)], -1)
    distances = (lambda a, b: torch.cdist(a, b).square()) if variant == "cdist" else squared_distances

    def block(i, to, source):
        q, key, v = (f(z) for f, z in zip(blocks[i], (to, source, source)))
        beta = width**-0.5
        if variant == "fused":
            q = torch.cat([2 * beta * q, torch.ones_like(q[..., :1])], -1)
            key = torch.cat([key, -beta * (key * key).sum(-1, keepdim=True)], -1)
            return F.scaled_dot_product_attention(q.unsqueeze(1), key.unsqueeze(1), v.unsqueeze(1), scale=1.0, dropout_p=0.01).squeeze(1)
        return F.dropout(torch.softmax(-beta * distances(q, key), -1), 0.01) @ v

    def loss():
        x1 = x + block(0, x, c) + block(1, x, x)
        c1 = c + block(2, c, x1) + block(3, c, c)
        d2 = distances(points, c1[..., :d])
        return (torch.softmax(-10 * d2, -1) * d2).sum((-1, -2)).mean()

    return train(compiled(variant, loss), fused(blocks.parameters(), lr=0.01))


@kind("kmeans_transformer", "eager", "compile")
def kmeans_transformer(variant, batch, n, d, k, layers):
    width = d + k
    q_enc, k_enc, q_dec, k_dec, v_dec = p = [nn.Parameter(torch.eye(width) + 0.01 * torch.randn(width, width)) for _ in range(5)]
    beta = nn.Parameter(torch.tensor(5.0))
    points, scratch = torch.randn(batch, n, d), torch.eye(k).expand(batch, k, k)

    def loss():
        centres, weights = points[:, :k], points.new_zeros(batch, n, k)
        for _ in range(layers):
            z = torch.cat([centres, scratch], -1)
            weights = torch.softmax(-beta * squared_distances(torch.cat([points, weights], -1) @ q_enc, z @ k_enc), -1)
            x = torch.cat([points, weights], -1)
            centres = (torch.softmax((z @ q_dec) @ (x @ k_dec).transpose(1, 2), -1) @ (x @ v_dec))[..., :d]
        return (-0.1 * torch.logsumexp(-10 * squared_distances(points, centres), -1)).mean()

    return train(compiled(variant, loss), fused([*p, beta]))


@kind("ddcl", "eager", "compile")
def ddcl(variant, items, tokens, d, k):
    z, p = leaf(items, tokens, d), leaf(k, d)

    def loss(z, p):
        d2 = squared_distances(z.reshape(-1, d), p)
        return (torch.softmax(-d2, -1) * d2).sum(-1).mean()

    f = compiled(variant, loss)
    return both_ways(lambda: f(z, p), z, p)


@kind("xor", "two_products", "one_product")
def xor(variant, n, d, m):
    e = torch.randn(d, m) / math.sqrt(m)
    q = nn.Parameter(torch.randn(m, 2) * 0.1)
    x = (torch.randint(0, 2, (n, d)) * 2 - 1).float()
    y = -(x[:, 3] * x[:, 7])

    def run():
        g = torch.softmax(e @ q, 0)
        a, b = (x @ g).unbind(-1) if variant == "one_product" else (x @ g[:, 0], x @ g[:, 1])
        ((-a * b - y) ** 2).mean().backward()
        with torch.no_grad():
            q.sub_(0.1 * q.grad)
        q.grad = None

    return run


def time_of(work, seconds):
    """As in bench/runner/main.cpp: the fastest of the rounds that fit the time."""
    begin = time.perf_counter()
    work()
    once = time.perf_counter() - begin
    pieces = 1 if once > 1e-3 else int(1e-3 / max(once, 1e-7)) + 1
    best = once if pieces == 1 else 1e30
    while time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        for _ in range(pieces):
            work()
        best = min(best, (time.perf_counter() - start) / pieces)
    return best


def status(key):
    return 1024 * int(re.search(key + r":\s+(\d+)", open("/proc/self/status").read()).group(1))


def peak_of(work):
    with open("/proc/self/clear_refs", "w") as f:
        f.write("5")
    before = status("VmRSS")
    work()
    return status("VmHWM") - before


def main():
    current, work = None, None
    for line in sys.stdin:
        words = line.split()
        try:
            what = words.pop(0)
            if what == "variants":
                print(*KINDS[words[0]][1] if words[0] in KINDS else [])
            elif what == "version":
                print("PyTorch", torch.__version__.split("+")[0])
            else:
                seconds = float(words.pop(0)) if what == "time" else 0
                if words != current:
                    work = None
                    variant, name, *sizes = words
                    work, current = KINDS[name][0](variant, *(int(s) if s.isdigit() else s for s in sizes)), words
                    if what == "time":
                        work()  # compiles, fills caches
                print(peak_of(work) if what == "peak" else time_of(work, seconds))
        except Exception as error:  # the other side decides what to make of it
            current = None
            print("error", " ".join(str(error).split())[:300])
        sys.stdout.flush()


if __name__ == "__main__":
    main()

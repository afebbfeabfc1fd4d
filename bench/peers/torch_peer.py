"""PyTorch's side of the comparison: the same works under the same names, written as its users would write them at their fastest."""

import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from server import serve, work

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
torch.set_flush_denormal(True)
torch.manual_seed(0)


def leaf(*shape, dtype=torch.float32):
    return torch.randn(*shape, dtype=dtype).requires_grad_()


def forward(f):
    def step():
        with torch.no_grad():
            f()

    return step


def forward_backward(f, leaves):
    y = f()
    g = None if y.dim() == 0 else torch.randn_like(y)

    def step():
        f().backward(g)
        for t in leaves:
            t.grad = None

    return step


def product(name, a, b, dtype=torch.float32, transposed=False):
    @work(name)
    def prepare():
        x, y = torch.randn(*a, dtype=dtype), torch.randn(*b, dtype=dtype)
        return forward(lambda: torch.matmul(x, y.mT if transposed else y))


for dtype, letter in ((torch.float32, "f32"), (torch.float64, "f64")):
    for n in (64, 128, 256, 512, 1024, 2048):
        product(f"gemm/{letter}/{n}", (n, n), (n, n), dtype)
product("bmm/64x128x64x128t", (64, 128, 64), (64, 128, 64), transposed=True)
product("bmm/64x128x128x64", (64, 128, 128), (64, 128, 64))
product("bmm/64x512x64x512t", (64, 512, 64), (64, 512, 64), transposed=True)
product("bmm/64x512x512x64", (64, 512, 512), (64, 512, 64))
product("bmm/256x100x10x10", (256, 100, 10), (256, 10, 10))
product("bmm/64x1000x16x16", (64, 1000, 16), (64, 16, 16))


@work("linear_gelu/4096x768x3072/forward_backward")
def linear_gelu():
    x, w, b = leaf(4096, 768), leaf(3072, 768), leaf(3072)
    return forward_backward(lambda: F.gelu(F.linear(x, w, b)), [x, w, b])


@work("softmax/4096x512/forward_backward")
def softmax():
    x = leaf(4096, 512)
    return forward_backward(lambda: torch.softmax(x, -1), [x])


@work("cross_entropy/4096x512/forward_backward")
def cross_entropy():
    x, t = leaf(4096, 512), torch.randint(0, 512, (4096,))
    return forward_backward(lambda: F.cross_entropy(x, t), [x])


@work("layer_norm/4096x768/forward_backward")
def layer_norm():
    x, w, b = leaf(4096, 768), leaf(768), leaf(768)
    return forward_backward(lambda: F.layer_norm(x, (768,), w, b), [x, w, b])


@work("rms_norm/4096x768/forward_backward")
def rms_norm():
    x, w = leaf(4096, 768), leaf(768)
    f = (lambda: F.rms_norm(x, (768,), w, 1e-6)) if hasattr(F, "rms_norm") else (lambda: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w)
    return forward_backward(f, [x, w])


for name, function in (("tanh", torch.tanh), ("gelu", F.gelu), ("exp", torch.exp)):

    @work(f"{name}/1M/forward")
    def elementwise(function=function):
        x = torch.randn(1 << 20)
        return forward(lambda: function(x))


for suffix, layout in (("", torch.contiguous_format), ("/channels_last", torch.channels_last)):

    @work("conv2d/64x32x32x32-64/forward_backward" + suffix)
    def conv(layout=layout):
        x = torch.randn(64, 32, 32, 32).to(memory_format=layout).requires_grad_()
        w = torch.randn(64, 32, 3, 3).to(memory_format=layout).requires_grad_()
        b = leaf(64)
        return forward_backward(lambda: F.conv2d(x, w, b, padding=1), [x, w, b])


for axis in (0, 1):

    @work(f"sum/4096x4096/{axis}/forward")
    def sums(axis=axis):
        x = torch.randn(4096, 4096)
        return forward(lambda: x.sum(axis))

    @work(f"max/4096x4096/{axis}/forward")
    def maxima(axis=axis):
        x = torch.randn(4096, 4096)
        return forward(lambda: x.amax(axis))


@work("transpose/2048x2048/forward")
def transpose():
    x = torch.randn(2048, 2048)
    return forward(lambda: x.t().contiguous())


@work("embedding/30000x256-64x128/forward_backward")
def embedding():
    table, index = leaf(30000, 256), torch.randint(0, 30000, (64, 128))
    return forward_backward(lambda: F.embedding(index, table), [table])


@work("tiny_add/forward_backward")
def tiny_add():
    x, one, g = leaf(16), torch.randn(16), torch.ones(16)

    def chain():
        y = x
        for _ in range(1000):
            y = y + one
        return y

    def step():
        chain().backward(g)
        x.grad = None

    return step


for T in (512, 1024):

    @work(f"attention/dot/{T}/forward_backward")
    def dot_attention(T=T):
        q, k, v = (leaf(8, 8, T, 64) for _ in range(3))
        if hasattr(F, "scaled_dot_product_attention"):
            f = lambda: F.scaled_dot_product_attention(q, k, v)  # noqa: E731
        else:
            f = lambda: torch.softmax(q @ k.mT * 0.125, -1) @ v  # noqa: E731
        return forward_backward(f, [q, k, v])

    # The squared norm of a query is the same along its row: softmax does not need it. The norms of the keys go in as one more
    # coordinate, so that the fused kernel does the rest.
    @work(f"attention/euclidean/{T}/forward_backward")
    def euclidean_attention(T=T):
        q, k, v = (leaf(8, 8, T, 64) for _ in range(3))
        return forward_backward(lambda: torch.softmax(2 * q @ k.mT - (k * k).sum(-1).unsqueeze(-2), -1) @ v, [q, k, v])

    if hasattr(F, "scaled_dot_product_attention"):

        @work(f"attention/euclidean/{T}/forward_backward/fused")
        def fused_euclidean(T=T):
            q, k, v = (leaf(8, 8, T, 64) for _ in range(3))

            def f():
                bias = -(k * k).sum(-1).unsqueeze(-2)
                return F.scaled_dot_product_attention(2 * q, k, v, attn_mask=bias.expand(8, 8, T, T), scale=1.0)

            return forward_backward(f, [q, k, v])


if __name__ == "__main__":
    sys.exit(serve())

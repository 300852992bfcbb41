"""Times of what PyTorch launches for a layer's experts, in microseconds, and rates of their products on four
streams, in TFLOP/s: experts.txt. Needs a GPU and PyTorch.

    python3 experts.py > experts.txt
"""

import random
import sys

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))

import torch

BF16 = torch.bfloat16
STREAMS = [torch.cuda.Stream() for _ in range(4)]


def values(*shape, dtype=BF16, **more):
    return torch.randn(*shape, device="cuda", dtype=dtype, **more)


def microseconds(work, times=10):
    for _ in range(3):
        work()
    torch.cuda.synchronize()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(times):
        work()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / times * 1e3


def permutation(tokens, chosen, experts, hidden):
    """Megatron-Core's permute and unpermute without fusion, and what autograd makes of them."""
    scores = values(tokens, experts, dtype=torch.float32)
    chooses = torch.zeros(tokens, experts, device="cuda", dtype=bool)
    chooses.scatter_(1, scores.topk(chosen, 1)[1], True)
    index = torch.nonzero(chooses.T.contiguous())[:, 1].contiguous()
    wide = index.unsqueeze(1).expand(-1, hidden)
    x, rows = values(tokens, hidden), values(tokens * chosen, hidden)
    works = {"select": lambda: x.index_select(0, index),
             "its gradient": lambda: torch.zeros_like(x).index_add_(0, index, rows),
             "scatter": lambda: torch.zeros_like(x).scatter_add_(0, wide, rows),
             "its gradient ": lambda: x.gather(0, wide),
             "copy": rows.clone}
    times = ", ".join(f"{name.strip()} {microseconds(work):.1f}" for name, work in works.items())
    print(f"permutation of {tokens} tokens, {chosen} choices, hidden {hidden}: {times}")


def biases(experts, rows, hidden):
    """Output biases times token weights, expert by expert (_apply_bias of TEGroupedMLP)."""
    y = values(experts * rows, hidden, requires_grad=True)
    each = [values(hidden, requires_grad=True) for _ in range(experts)]
    weights = torch.rand(experts * rows, 1, device="cuda", requires_grad=True)
    gradient = torch.ones(experts * rows, hidden, device="cuda", dtype=BF16)
    split = [rows] * experts

    def forward():
        parts = zip(torch.split(y, split), each, torch.split(weights, split))
        return torch.cat([part + bias * weight for part, bias, weight in parts]).to(BF16)

    both = microseconds(lambda: forward().backward(gradient))
    first = microseconds(forward)
    print(f"biases of {experts} experts, {rows} rows of {hidden}: forward {first:.1f}, both {both:.1f}")


def rate(splits, out, width, product):
    """`product`: one of the expert's three; all of them in a CUDA graph."""
    def run():
        here = torch.cuda.current_stream()
        for stream in STREAMS:
            stream.wait_stream(here)
        for expert in range(len(splits)):
            with torch.cuda.stream(STREAMS[expert % len(STREAMS)]):
                product(expert)
        for stream in STREAMS:
            here.wait_stream(stream)

    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return 2 * sum(splits) * out * width / microseconds(graph.replay) / 1e6


def products(experts, rows, out, width, ragged):
    splits = [rows + (random.randrange(-60, 60) | 1 if ragged else 0) for _ in range(experts)]
    x, gradients = [values(n, width) for n in splits], [values(n, out) for n in splits]
    weights = [values(out, width) for _ in splits]
    sums = [torch.zeros(out, width, device="cuda", dtype=BF16) for _ in splits]
    works = (lambda e: x[e] @ weights[e].T, lambda e: gradients[e] @ weights[e],
             lambda e: sums[e].addmm_(gradients[e].T, x[e]))
    rates = ", ".join(f"{rate(splits, out, width, work):.0f}" for work in works)
    print(f"{experts} products of {rows}{' +- 60' if ragged else ''} x {out} x {width}: {rates}")


if __name__ == "__main__":
    for shape in ((4096, 8, 128, 2048), (4096, 2, 8, 4096), (2048, 2, 8, 6144), (4096, 4, 128, 2880),
                  (16384, 4, 128, 2880)):
        permutation(*shape)
    for shape in ((16, 1024, 2880), (16, 4096, 2880), (2, 8192, 2880)):
        biases(*shape)
    random.seed(1)
    for shape in ((16, 2048, 1536, 2048), (16, 2048, 2048, 768), (8, 4096, 1536, 2048),
                  (16, 1024, 5760, 2880), (16, 1024, 2880, 2880), (1, 8192, 4096, 4096)):
        for ragged in (False, True):
            products(*shape, ragged)

"""Host time of Transformer Engine's Python around experts' products, in microseconds: experts_host.txt. Its
C++ module is replaced: products return at once, quantized rows are allocated, not computed. Needs PyTorch, no
GPU.

    python3 experts_host.py TRANSFORMER_ENGINE_CHECKOUT >> experts_host.txt
"""

import contextlib
import importlib.machinery
import os
import sys
import time
import types

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))

import torch

BF16 = torch.bfloat16
SIZE = 32  # rows of an expert, and their width: one block of MXFP8
EXPERTS = (1, 2, 4, 8, 16, 32)
REPETITIONS = 500
ON_THE_HOST = {b'device="cuda"': b'device="cpu"', b'torch.device("cuda")': b'torch.device("cpu")',
               b"torch.Tensor().cuda()": b"torch.Tensor()", b"inp.is_cuda": b"inp.is_cpu",
               b"torch.cuda.is_available()": b"True"}


class Loader(importlib.machinery.SourceFileLoader):
    """Modules of the checkout, with their tensors on the host."""

    def get_data(self, path):
        data = super().get_data(path)
        for device, host in ON_THE_HOST.items():
            data = data.replace(device, host)
        return data

    def path_stats(self, path):
        raise OSError("no compiled files")


class Named(types.ModuleType):
    """Of the C++ module: every name that is only compared or passed on."""

    def __getattr__(self, name):
        if name.startswith("__") and name != "__mro_entries__":
            raise AttributeError(name)
        value = (lambda _: (object,)) if name == "__mro_entries__" else Named(name)
        setattr(self, name, value)
        return value

    def __call__(self, *_, **__):
        return self

    def __int__(self):
        return 0


def load(checkout):
    """Transformer Engine's modules, and the module that stands for its C++."""
    def finder(path):
        if not path.startswith(checkout):
            raise ImportError(path)
        return importlib.machinery.FileFinder(path, (Loader, [".py"]))

    os.environ["NVTE_PROJECT_BUILDING"] = "1"
    sys.path_hooks.insert(0, finder)
    for name in ("transformer_engine", "transformer_engine.pytorch"):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [os.path.join(checkout, *name.split("."))]
        sys.modules[name].torch_version = lambda: (2, 9, 0)
    export = sys.modules["transformer_engine.pytorch.export"] = types.ModuleType("export")
    export.is_in_onnx_export_mode = export.assert_warmed_up = lambda *_: False
    device = types.SimpleNamespace(major=9, minor=0, multi_processor_count=132, name="none")
    torch.cuda.current_device = lambda: "cpu"
    torch.cuda.get_device_properties = lambda *_: device
    torch.cuda.get_device_capability = lambda *_: (9, 0)
    torch.cuda.is_current_stream_capturing = lambda: False
    torch.cuda.nvtx.range_push = torch.cuda.nvtx.range_pop = lambda *_: None
    torch.cuda.device = lambda *_: contextlib.nullcontext()
    cpp = sys.modules["transformer_engine_torch"] = Named("transformer_engine_torch")
    cpp.get_num_cublas_streams = lambda: 4
    import transformer_engine.pytorch.module  # noqa: F401
    return cpp


def storage_of(tensor):
    """The class without autograd under a class of quantized tensors, of either name that it had."""
    return next(base for base in tensor.__mro__[1:] if base.__name__.startswith(tensor.__name__))


def quantized(quantizer):
    """An expert's rows as the C++ allocates them: values and scales by row and by column."""
    def tensor(wanted, *shape):
        return torch.empty(shape, dtype=torch.uint8) if wanted else None

    row, column = quantizer.rowwise_usage, quantizer.columnwise_usage
    if type(quantizer).__name__ == "MXFP8Quantizer":
        from transformer_engine.pytorch.tensor.mxfp8_tensor import MXFP8Tensor
        storage = storage_of(MXFP8Tensor)
        swizzled = [False] * ("with_gemm_swizzled_scales" in storage.__new__.__code__.co_varnames)
        return storage(tensor(row, SIZE, SIZE), tensor(row, SIZE, 1), tensor(column, SIZE, SIZE),
                       tensor(column, 1, SIZE), quantizer.dtype, quantizer, *swizzled)
    from transformer_engine.pytorch.tensor.float8_tensor import Float8Tensor
    return storage_of(Float8Tensor)(
        data=tensor(True, SIZE, SIZE), fp8_scale_inv=tensor(True, 1), fp8_dtype=quantizer.dtype,
        data_transpose=tensor(column, SIZE, SIZE), quantizer=quantizer)


class Experts:
    """A grouped layer as Megatron-Core runs it: products add to the gradients, and every parameter has the
    hook of its DistributedDataParallel. Not the first micro-batch: quantized weights are kept."""

    def __init__(self, cpp, experts, bias):
        from transformer_engine.pytorch.module.grouped_linear import GroupedLinear
        self.layer = GroupedLinear(experts, SIZE, SIZE, bias=bias, params_dtype=BF16, device="cpu",
                                   fuse_wgrad_accumulation=True)
        self.ready = 0
        self.nodes = []
        for parameter in self.layer.parameters():
            parameter.main_grad = torch.zeros(parameter.shape)
            parameter.grad_added_to_main_grad = False
            self.nodes.append(parameter.expand_as(parameter).grad_fn.next_functions[0][0])
            self.nodes[-1].register_hook(self.hook(parameter))
        self.x = torch.zeros(SIZE * experts, SIZE, dtype=BF16, requires_grad=True)
        self.gradient = torch.zeros_like(self.x)
        self.splits = [SIZE] * experts
        cpp.te_general_grouped_gemm = self.product

    def product(self, *arguments):
        self.at = self.at or time.perf_counter()
        return arguments[7]  # biases

    def hook(self, parameter):
        def added(*_):
            if parameter.grad is not None and not parameter.grad_added_to_main_grad:
                parameter.main_grad.add_(parameter.grad.data)
            parameter.grad = None
            self.ready += 1
        return added

    def times(self):
        """Least seconds of the forward up to its product, behind it, and of the backward."""
        least = [1.0] * 3
        for i in range(REPETITIONS):
            self.x.grad = self.at = None
            begin = time.perf_counter()
            y = self.layer(self.x, self.splits, is_first_microbatch=i == 0)
            middle = time.perf_counter()
            taken = [self.at - begin, middle - self.at]
            y.backward(self.gradient)
            taken.append(time.perf_counter() - middle)
            least = [min(pair) for pair in zip(least, taken)] if i > 0 else least
        return least


def microseconds(work):
    least = 1.0
    for _ in range(10 * REPETITIONS):
        begin = time.perf_counter()
        work()
        least = min(least, time.perf_counter() - begin)
    return f"{least * 1e6:.1f}"


def line(times):
    """Least squares over the numbers of experts."""
    mean, average = (sum(of) / len(EXPERTS) for of in (EXPERTS, times))
    slope = (sum((e - mean) * (t - average) for e, t in zip(EXPERTS, times))
             / sum((e - mean) ** 2 for e in EXPERTS))
    return f"{(average - slope * mean) * 1e6:.0f} + {slope * 1e6:.1f} E"


def units(cpp):
    """What host times of other machines are known for (NVIDIA/TransformerEngine issue 2053), and what the
    times below contain."""
    from transformer_engine.pytorch.module.linear import Linear
    one, x = torch.zeros(1, 1, requires_grad=True), torch.zeros(SIZE, SIZE, dtype=BF16, requires_grad=True)
    cpp.generic_gemm = lambda *_, **__: (x.data, None, None, None)
    plain = torch.nn.Linear(1, 1, bias=False)
    engine = Linear(SIZE, SIZE, bias=False, params_dtype=BF16, device="cpu")
    print(f"forward of torch's Linear {microseconds(lambda: plain(one))}, of Transformer Engine's without "
          f"its product {microseconds(lambda: engine(x))}; backward call alone "
          f"{microseconds(lambda: one.clone().backward(one.data))}, torch.empty "
          f"{microseconds(lambda: torch.empty((SIZE, SIZE), dtype=torch.uint8))}")


def main(checkout):
    torch.set_num_threads(1)
    cpp = load(os.path.abspath(checkout))
    from transformer_engine.common import recipe
    try:
        from transformer_engine.pytorch import quantization
    except ImportError:
        from transformer_engine.pytorch import fp8 as quantization
    for name in dir(quantization):
        if name.startswith("check_") and name.endswith("_support"):
            setattr(quantization, name, lambda *_: (True, ""))
    cpp.split_quantize = lambda _, __, quantizers, **___: [quantized(each) for each in quantizers]
    cpp.quantize = lambda _, quantizer, out=None, *__: quantized(quantizer) if out is None else out
    cpp.bgrad_quantize = lambda _, quantizer: (torch.empty(SIZE, dtype=BF16), quantized(quantizer))
    with open(os.path.join(checkout, "build_tools", "VERSION.txt")) as version:
        print(f"Transformer Engine {version.read().strip()}")
    units(cpp)
    for name, chosen in (("bf16", None), ("FP8, scales of the current tensor", recipe.Float8CurrentScaling()),
                         ("MXFP8", recipe.MXFP8BlockScaling())):
        for bias in (False, True):
            with (contextlib.nullcontext() if chosen is None
                  else quantization.fp8_autocast(enabled=True, fp8_recipe=chosen)):
                parts = zip(*(Experts(cpp, experts, bias).times() for experts in EXPERTS))
            first, behind, backward = (line(times) for times in parts)
            print(f"{name}{', biases' if bias else ''}: forward up to its product {first}, "
                  f"behind it {behind}, backward {backward}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])

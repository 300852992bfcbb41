"""Megatron-Core and Transformer Engine on a host without GPU, for layer_host.py: kernels and C++ are
replaced, they return new tensors at once."""

import contextlib
import enum
import importlib.machinery
import importlib.metadata
import os
import sys
import types

import torch
import torch.distributed as dist

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "epyc-2-cores"))
import experts_host  # noqa: E402

BF16 = torch.bfloat16
TOKENS, WIDTH, RANKS, CHOSEN = 16, 128, 8, 8
GEMMS = [f"GEMM{i}_{name}" for i in (1, 2, 3) for name in ("INPUT", "WEIGHT", "OUTPUT")]
GRADIENTS = [f"GRAD_{name}{i}" for i in (1, 2, 3) for name in ("OUTPUT", "INPUT")]


class Nothing:
    """A stream, an event, or a kernel that does nothing."""

    cuda_stream = 0

    def __init__(self, *_, **__):
        pass

    def __getitem__(self, _):
        return self

    def __call__(self, *_, **__):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    wait = wait_stream = wait_event = synchronize = record = record_event = __call__


def quantized(quantizer, x):
    """A tensor's rows as the C++ allocates them."""
    shape = tuple(x.shape)
    rows, width = x.numel() // shape[-1], shape[-1]

    def tensor(wanted, *size):
        return torch.empty(size, dtype=torch.uint8) if wanted else None

    row, column = quantizer.rowwise_usage, quantizer.columnwise_usage
    if type(quantizer).__name__ == "MXFP8Quantizer":
        from transformer_engine.pytorch.tensor.mxfp8_tensor import MXFP8Tensor
        storage = experts_host.storage_of(MXFP8Tensor)
        swizzled = [False] * ("with_gemm_swizzled_scales" in storage.__new__.__code__.co_varnames)
        return storage(tensor(row, *shape), tensor(row, rows, 1), tensor(column, *shape),
                       tensor(column, 1, width), quantizer.dtype, quantizer, *swizzled)
    from transformer_engine.pytorch.tensor.float8_tensor import Float8Tensor
    return experts_host.storage_of(Float8Tensor)(
        data=tensor(True, *shape), fp8_scale_inv=tensor(True, 1), fp8_dtype=quantizer.dtype,
        data_transpose=tensor(column, width, rows), quantizer=quantizer)


def product(a, turned, b, other, out, *_, **__):
    if out is None:
        rows = (b.size(-1),) if other else tuple(b.size())[:-1]
        out = torch.empty((*rows, a.size(0) if turned else a.size(-1)), dtype=BF16)
    return out, None, None, None


def norm(x, weight, eps, out, quantizer, *_):
    y = torch.empty_like(x) if quantizer is None else quantized(quantizer, x)
    return out if out is not None else y, None, torch.empty(x.shape[0])


def attention_backward(*arguments):
    return [torch.empty_like(x) for x in arguments if isinstance(x, torch.Tensor) and x.dim() == 4][:3]


def cpp_functions(chosen):
    """What stands for the C++ functions that a layer calls. `chosen`: map of the tokens' experts."""
    like = torch.empty_like

    def choose(logits, *_, **__):
        return like(logits), chosen(logits), like(logits)

    def score(logits, **_):
        return like(logits), chosen(logits), like(logits)

    return {
        "get_cudnn_version": lambda: 91900, "get_num_cublas_streams": lambda: 4,
        "FP8FwdTensors": enum.IntEnum("FP8FwdTensors", {name: i for i, name in enumerate(GEMMS)}),
        "FP8BwdTensors": enum.IntEnum("FP8BwdTensors", {name: i for i, name in enumerate(GRADIENTS)}),
        "generic_gemm": product, "te_general_grouped_gemm": lambda *arguments: arguments[7],
        "rmsnorm_fwd": norm, "layernorm_fwd": norm, "layernorm_bwd": None,
        "rmsnorm_bwd": lambda gradient, x, _, weight, *__: (like(x), like(weight)),
        "fused_attn_fwd": lambda *a: [like(a[14]), torch.empty(1), torch.empty(2, dtype=torch.int64)],
        "fused_attn_bwd": attention_backward,
        "fused_rope_forward": lambda x, *_: like(x), "fused_rope_backward": lambda x, *_: like(x),
        "fused_topk_with_score_function_fwd": choose,
        "fused_topk_with_score_function_bwd": lambda _, __, ___, ____, gradient, *_____: like(gradient),
        "fused_score_for_moe_aux_loss_fwd": score,
        "fused_score_for_moe_aux_loss_bwd": lambda grad_scores, **_: like(grad_scores),
        "fused_moe_aux_loss_fwd": lambda **_: (torch.empty(()), torch.empty(1)),
        "fused_moe_aux_loss_bwd": lambda num_rows, num_cols, **_: torch.empty((num_rows, num_cols)),
        "fused_multi_row_padding": lambda *_: None, "fused_multi_row_unpadding": lambda *_: None,
        "split_quantize": lambda x, splits, quantizers, **_: [
            quantized(each, x[:size]) for each, size in zip(quantizers, splits)],
        "quantize": lambda x, quantizer, out=None, *_: quantized(quantizer, x) if out is None else out,
        "bgrad_quantize": lambda x, quantizer: (torch.empty(x.shape[-1]), quantized(quantizer, x)),
    }


def to_host():
    """PyTorch without a GPU, and one process of eight: exchanges return at once."""
    cuda = torch.cuda
    device = types.SimpleNamespace(major=9, minor=0, multi_processor_count=132, name="none",
                                   total_memory=80 << 30)
    cuda.current_device = lambda: "cpu"
    cuda.get_device_properties = lambda *_: device
    cuda.get_device_capability = lambda *_: (9, 0)
    cuda.is_initialized = lambda: True
    cuda.is_current_stream_capturing = lambda: False
    cuda.nvtx.range_push = cuda.nvtx.range_pop = lambda *_: None
    cuda.device = cuda.stream = lambda *_: contextlib.nullcontext()
    cuda.Stream = cuda.Event = Nothing
    cuda.current_stream = lambda *_: Nothing()
    torch.Tensor.record_stream = lambda *_: None
    from torch.testing._internal.distributed.fake_pg import FakeStore
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=RANKS)

    def gather(out, own, **_):  # every rank sends as many tokens
        out.view(RANKS, -1).copy_(own.reshape(1, -1).expand(RANKS, -1))
    dist.all_gather_into_tensor = gather


def load(engine, megatron, chosen):
    """Both frameworks' modules, with their tensors on the host."""
    def finder(path):
        if not path.startswith((engine, megatron)):
            raise ImportError(path)
        return importlib.machinery.FileFinder(path, (experts_host.Loader, [".py"]))

    os.environ["NVTE_PROJECT_BUILDING"] = "1"
    experts_host.ON_THE_HOST.update({b".is_cuda": b".is_cpu", b".cuda()": b".cpu()"})
    sys.path_hooks.insert(0, finder)
    cpp = sys.modules["transformer_engine_torch"] = experts_host.Named("transformer_engine_torch")
    for name, function in cpp_functions(chosen).items():
        setattr(cpp, name, function)
    cpp.get_fused_attn_backend = lambda *_: cpp.NVTE_Fused_Attn_Backend.NVTE_F16_arbitrary_seqlen
    package = sys.modules["transformer_engine"] = types.ModuleType("transformer_engine")
    package.__path__ = [os.path.join(engine, "transformer_engine")]
    with open(os.path.join(engine, "build_tools", "VERSION.txt")) as file:
        package.__version__ = file.read().strip()
    kernels = sys.modules["transformer_engine.common.triton.permutation"] = types.ModuleType("permutation")
    names = ("row_id_map_pass_1", "row_id_map_pass_2", "row_id_map_pass_3", "permute", "unpermute",
             "unpermute_bwd_with_merging_probs", "make_chunk_sort_map", "sort_chunks_by_map")
    for name in names:
        setattr(kernels, f"_{name}_kernel", Nothing())
    import transformer_engine.common as common
    common.load_framework_extension = lambda *_: None
    import transformer_engine.pytorch as pytorch
    package.pytorch = pytorch
    version = importlib.metadata.version
    importlib.metadata.version = lambda name: (
        package.__version__ if name.replace("-", "_") == "transformer_engine" else version(name))
    from transformer_engine.pytorch import quantization
    for name in dir(quantization):
        if name.startswith("check_") and name.endswith("_support"):
            setattr(quantization, name, lambda *_: (True, ""))
    sys.path.insert(0, megatron)
    from megatron.core import __version__, parallel_state
    parallel_state.initialize_model_parallel(expert_model_parallel_size=RANKS,
                                             create_gloo_process_groups=False)
    return f"Transformer Engine {package.__version__}, Megatron-Core {__version__}"


class Buffer:
    """HybridEP's, whose calls return at once."""

    def __init__(self, experts):
        self.counts = torch.full((experts,), TOKENS * CHOSEN // experts)

    def dispatch_with_permute(self, hidden, probs=None, **_):
        rows = TOKENS * CHOSEN
        weights = None if probs is None else probs.new_empty(rows)
        return hidden.new_empty((rows, WIDTH)), weights, None, self.counts, None

    def combine_with_unpermute(self, hidden, probs=None, **_):
        weights = None if probs is None else probs.new_empty((TOKENS, RANKS * len(self.counts)))
        return hidden.new_empty((TOKENS, WIDTH)), weights

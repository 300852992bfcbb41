"""Host time of Megatron-Core's Python around a layer's kernels, in microseconds: layer_host.txt. Needs
PyTorch, no GPU.

    python3 layer_host.py TRANSFORMER_ENGINE_CHECKOUT MEGATRON_CHECKOUT >> layer_host.txt
"""

import functools
import gc
import os
import sys
import time

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))

import torch
import torch.nn.functional as F

from layer_stand_ins import BF16, CHOSEN, RANKS, TOKENS, WIDTH, Buffer, experts_host, load, to_host

EXPERTS = (2, 4, 8, 16)  # of a rank
REPETITIONS = 800
WARM = 20


def layer_of(precision, experts, dispatcher, head_norms=True):
    """A layer as Megatron-Bridge's recipes of Qwen3-30B-A3B run it, dense without experts: products add to
    the gradients, every parameter has the hook of DistributedDataParallel."""
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_with_transformer_engine_spec
    from megatron.core.transformer.moe import fused_a2a, token_dispatcher
    from megatron.core.transformer.spec_utils import build_module
    from megatron.core.transformer.transformer_config import TransformerConfig
    mixture = {}
    if experts > 0:
        flex = dispatcher == "flex"
        mixture = dict(num_moe_experts=RANKS * experts, moe_router_topk=CHOSEN, moe_ffn_hidden_size=64,
                       moe_grouped_gemm=True, moe_permute_fusion=True, moe_router_fusion=True,
                       moe_router_dtype="fp32", moe_aux_loss_coeff=1e-3, moe_token_dispatcher_type=dispatcher,
                       moe_router_load_balancing_type="aux_loss", expert_model_parallel_size=RANKS,
                       **(dict(moe_flex_dispatcher_backend="hybridep") if flex else {}))
        if flex:
            fused_a2a._hybrid_ep_buffer = Buffer(experts)
            token_dispatcher.hybrid_ep_dispatch = lambda **k: fused_a2a.HybridEPDispatch.apply(*k.values())
            token_dispatcher.hybrid_ep_combine = lambda **k: fused_a2a.HybridEPCombine.apply(*k.values())
    config = TransformerConfig(
        num_layers=1, hidden_size=WIDTH, num_attention_heads=2, num_query_groups=1, kv_channels=64,
        ffn_hidden_size=64, add_bias_linear=False, gated_linear_unit=True, activation_func=F.silu,
        normalization="RMSNorm", qk_layernorm=head_norms, bf16=True, params_dtype=BF16, attention_dropout=0.0,
        hidden_dropout=0.0, bias_activation_fusion=True, bias_dropout_fusion=True, apply_rope_fusion=True,
        gradient_accumulation_fusion=True, use_cpu_initialization=True, **mixture, **precision)
    spec = get_gpt_layer_with_transformer_engine_spec(
        num_experts=config.num_moe_experts, moe_grouped_gemm=experts > 0, qk_layernorm=head_norms)
    layer = build_module(spec, config=config, layer_number=1).to(BF16)
    nodes = []
    for parameter in layer.parameters():
        parameter.main_grad = torch.zeros(parameter.shape)
        parameter.grad_added_to_main_grad = False
        nodes.append(parameter.expand_as(parameter).grad_fn.next_functions[0][0])
        nodes[-1].register_hook(functools.partial(added, parameter))
    layer.__dict__["kept"] = nodes
    return layer, config


def added(parameter, *_):
    """Hook of DistributedDataParallel (_make_backward_post_hook), not in the last micro-batch."""
    if parameter.grad is not None and not parameter.grad_added_to_main_grad:
        parameter.main_grad.add_(parameter.grad.data)
    parameter.grad = None


def times(forward):
    """Least microseconds of processor time of `forward` and of its backward."""
    least = [1.0, 1.0]
    for i in range(REPETITIONS):
        begin = time.thread_time()
        results = forward()
        middle = time.thread_time()
        gradients = [torch.zeros_like(result) for result in results]
        begins = time.thread_time()
        torch.autograd.backward(results, gradients)
        taken = [middle - begin, time.thread_time() - begins]
        least = [min(pair) for pair in zip(least, taken)] if i > WARM else least
    return [1e6 * t for t in least]


def measure(precision, experts=0, dispatcher="alltoall", head_norms=True):
    """Of the whole layer, its attention with norm and sum, and its routing with norm and permutation."""
    from megatron.core.fp8_utils import get_fp8_context
    layer, config = layer_of(precision, experts, dispatcher, head_norms)
    x = torch.zeros(TOKENS, 1, WIDTH, dtype=BF16, requires_grad=True)
    angles = torch.zeros(TOKENS, 1, 1, 64)

    def whole():
        with get_fp8_context(config, 0):
            return [layer(x, attention_mask=None, rotary_pos_emb=angles)[0]]

    def attention():
        with get_fp8_context(config, 0):
            return [layer._forward_attention(x, attention_mask=None, rotary_pos_emb=angles)[0]]

    def routing():
        y = layer.pre_mlp_layernorm(x)
        return layer.mlp.preprocess(y, *layer.mlp.route(y))

    parts = [whole, attention] + [routing] * (experts > 0)
    found = []
    for part in parts:
        gc.collect()
        found.append(times(part))
    return found


def operator():
    """Of one small operator with autograd, forward and backward: no part of any module."""
    factors = [torch.ones(1, requires_grad=True) for _ in range(64)]

    def chain():
        y = factors[0]
        for factor in factors:
            y = y * factor.data
        return [y]
    return [t / 64 for t in times(chain)]


def line(values):
    return experts_host.line([value * 1e-6 for value in values])


def main(engine, megatron):
    torch.set_num_threads(1)
    gc.disable()  # as manual_gc of the recipes
    experts_host.EXPERTS = EXPERTS
    maps = {}

    def chosen(logits):
        count = logits.shape[-1]
        if count not in maps:
            token, choice = torch.arange(TOKENS).view(-1, 1), torch.arange(CHOSEN)
            maps[count] = torch.zeros(TOKENS, count, dtype=torch.bool).scatter(
                1, (token * CHOSEN + choice) % count, True)
        return maps[count]

    to_host()
    print(load(os.path.abspath(engine), os.path.abspath(megatron), chosen))
    print("operator with autograd: forward {:.1f}, backward {:.1f}".format(*operator()))
    for name, precision in (("bf16", {}), ("FP8, scales of the current tensor",
                                           dict(fp8="hybrid", fp8_recipe="tensorwise")),
                            ("MXFP8", dict(fp8="e4m3", fp8_recipe="mxfp8"))):
        whole, attention = measure(precision)
        plain = measure(precision, head_norms=False)[1]
        print(f"{name}, dense: " + ", ".join(
            f"{way} of attention {a:.0f}, without norms of heads {p:.0f}, of the rest {w - a:.0f}"
            for way, a, p, w in zip(("forward", "backward"), attention, plain, whole)), flush=True)
        for dispatcher in ("alltoall", "flex"):
            found = [measure(precision, experts, dispatcher) for experts in EXPERTS]
            text = []
            for i, way in enumerate(("forward", "backward")):
                least = [min(parts[k][i] for parts in found) for k in (1, 2)]
                rest = [parts[0][i] - parts[1][i] - parts[2][i] for parts in found]
                text.append(f"{way} of attention {least[0]:.0f}, of routing {least[1]:.0f}, "
                            f"of the rest {line(rest)}")
            print(f"{name}, {dispatcher}: " + "; ".join(text), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

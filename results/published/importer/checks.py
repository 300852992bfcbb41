"""Checks that the figures of a row agree with each other."""

import re


def number(cells, column):
    text = cells.get(column, "")
    return float(text) if text not in ("", None, "unstated") else None


NAMES = ("num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads",
         "intermediate_size",
         "vocab_size")
PRESETS = {"llama-3.1-8b": (32, 4096, 32, 8, 14336, 128256),
           "llama-3.1-70b": (80, 8192, 64, 8, 28672, 128256),
           "llama-3.1-405b": (126, 16384, 128, 8, 53248, 128256)}


def size_of(cells, name):
    """A size of the model, from its column or its preset; None when neither says it."""
    preset = PRESETS.get(cells.get("model"))
    return int(cells[name]) if cells.get(name) else preset[NAMES.index(name)] if preset else None


def forward_sizes(cells):
    """(layers, hidden, heads·size, weights of matrix products) of a dense model that has all these
    columns."""
    values = [size_of(cells, name) for name in NAMES]
    layers, hidden, heads, kv, ffn, vocab = values
    if not (layers and hidden and heads
            and vocab) or cells.get("num_experts") or cells.get("hybrid_layer_pattern"):
        return None
    kv, ffn = kv or heads, ffn or 4 * hidden
    head = int(cells.get("head_dim") or hidden // heads)
    gated = cells.get("swiglu", "true" if cells.get("model_type") != "gpt2" else "false") == "true"
    layer = hidden * (heads + 2 * kv) * head + heads * head * hidden + (3 if gated else 2) * hidden * ffn
    return layers, hidden, heads * head, layers * layer + vocab * hidden


def flops_per_token(definition, cells):
    """FLOPs per trained token by a definition of results/published/README.md; None for an unknown model."""
    sizes = forward_sizes(cells)
    if sizes is None:
        return None
    layers, hidden, width, weights = sizes
    s, vocab = int(cells["seq_length"]), size_of(cells, "vocab_size")
    if definition == "megatron-2021":
        return 72 * layers * hidden**2 * (1 + s / (6 * hidden) + vocab / (12 * layers * hidden))
    return 6 * weights + (6 if definition == "causal-attention" else 12) * layers * width * s


def definition_for(cells, printed):
    """The definition of FLOPs that a printed figure per token follows within 5 %, or None."""
    best = None
    for definition in ("causal-attention", "full-attention", "megatron-2021"):
        if definition == "megatron-2021" and cells.get("model_type") != "gpt2":
            continue
        ours = flops_per_token(definition, cells)
        if ours and abs(printed / ours - 1) < 0.05 and (best is None or abs(printed / ours - 1) < best[0]):
            best = (abs(printed / ours - 1), definition)
    return best[1] if best else None


def tokens_per_step(cells):
    batch, sequence = number(cells, "global_batch_size"), number(cells, "seq_length")
    return batch * sequence if batch and sequence else None


def contradiction(cells):
    """Why the row cannot be, or None: sizes that do not multiply, rates that do not agree."""
    gpus = number(cells, "world_size")
    ranks = (number(cells, "tensor_model_parallel_size")
             or 1) * (number(cells, "pipeline_model_parallel_size") or 1) * (
        number(cells, "context_parallel_size") or 1)
    replicas = number(cells, "data_parallel_size")
    if gpus and gpus % ranks:
        return f"contradicts itself: {gpus:g} GPUs, tensor x pipeline x context = {ranks:g}"
    if gpus and replicas and gpus != ranks * replicas:
        return f"contradicts itself: {gpus:g} GPUs, tensor x pipeline x context x data = {ranks * replicas:g}"
    experts = (number(cells, "expert_model_parallel_size")
               or 1) * (number(cells, "pipeline_model_parallel_size") or 1) * (
        number(cells, "expert_tensor_parallel_size") or 1)
    if gpus and gpus % experts:
        return f"contradicts itself: {gpus:g} GPUs, expert tensor x expert x pipeline = {experts:g}"
    batch, micro = number(cells, "global_batch_size"), number(cells, "micro_batch_size")
    if gpus and batch and micro and batch % (micro * gpus / ranks):
        return (f"contradicts itself: batch {batch:g}, micro-batch {micro:g} x {gpus / ranks:g} replicas "
                f"does not "
                "divide it")
    layers = size_of(cells, "num_hidden_layers")
    stages = (number(cells, "pipeline_model_parallel_size") or 1) * (number(cells, "virtual_pipeline_chunks")
                                                                     or 1)
    if layers and stages > layers + 2:
        return f"contradicts itself: {stages:g} stages, {layers:g} layers"
    heads, tensor = size_of(cells, "num_attention_heads"), number(cells, "tensor_model_parallel_size") or 1
    if heads and heads % tensor:
        return f"contradicts itself: {heads:g} heads do not divide among {tensor:g} tensor ranks"
    steps = number(cells, "num_microbatches")
    if gpus and batch and micro and steps and batch != micro * steps * gpus / ranks:
        return (f"contradicts itself: batch {batch:g}, {steps:g} micro-batches of {micro:g} on "
                f"{gpus / ranks:g} "
                f"replicas make {micro * steps * gpus / ranks:g}")
    return rates_contradict(cells, gpus)


LONG = 8192  # tokens of a sequence from which attention's FLOPs count


def too_many_flops(cells, printed):
    """True if FLOPs per token are twice those of the parameters that the model's name calls active."""
    active = re.search(r"-a(\d+)b$", cells.get("model", ""))
    if active is None or (number(cells, "seq_length") or LONG) > LONG:
        return False
    return printed > 12e9 * int(active.group(1))


def rates_contradict(cells, gpus):
    tokens, step = tokens_per_step(cells), number(cells, "step_s")
    rate = number(cells, "tokens_per_s") or (number(cells, "tokens_per_s_per_gpu") or 0) * (gpus or 0)
    if tokens and step and rate and abs(tokens / step / rate - 1) > 0.02:
        return (f"contradicts itself: batch x sequence / step = {tokens / step:.0f} tokens/s, printed are "
                f"{rate:.0f}")
    if not (tokens and gpus):
        return None
    tflops = number(cells, "model_tflops_per_gpu")
    if tflops and cells.get("flops"):
        rate = rate or (tokens / step if step else 0)
        ours = flops_per_token(cells["flops"], cells)
        if rate and ours and abs(ours * rate / gpus / 1e12 / tflops - 1) > 0.05:
            return (f"contradicts itself: FLOPs per token x tokens/s = {ours * rate / gpus / 1e12:.0f} "
                    f"TFLOP/s per GPU, "
                    f"printed are {tflops:g}")
    return None

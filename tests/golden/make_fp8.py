"""Makes the golden files of linear layers in FP8: losses and gradients of the golden qwen2 model by PyTorch.

    python make_fp8.py [FOLDER]        needs torch, safetensors, numpy

Weights are those of make_golden.py. A number next to a rounding boundary may go the other way on another
processor, and the gradients with it: tokens are drawn until last digits of the weights change nothing.
The model is written out here, since q, k and v are one product with one scale each, and so are gate and
up. Quantization follows bench/training/fp8.md. FOLDER/fp8/<name> gets run.yaml, tokens.npy,
gradients.safetensors (of the first of three steps of plain gradient descent) and expected.json with the
loss of every step.
"""

import json
import pathlib
import sys

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))

import numpy
import torch
from safetensors.torch import load_file, save_file

STEPS = 3
SEQ = 16
SAMPLES = 4
MICRO_BATCH = 2
LEARNING_RATE = 0.1
TRIES = 24  # changes of last digits that must change nothing
NOISE = 3e-7

E4M3 = torch.float8_e4m3fn
E5M2 = torch.float8_e5m2
LARGEST = {E4M3: 448.0, E5M2: 57344.0}

CASES = {
    "delayed": dict(format="hybrid", recipe="delayed", margin=1, history=2),
    "tensorwise": dict(format="e4m3", recipe="tensorwise", margin=0, history=1024),
}


class Slot:
    """One place of the model that is quantized."""

    def __init__(self, case, dtype):
        self.dtype = dtype
        self.delayed = case["recipe"] == "delayed"
        self.largest = torch.tensor(LARGEST[dtype] / 2 ** case["margin"], dtype=torch.float32)
        self.history = []
        self.length = case["history"]
        self.scale = None
        self.met = torch.tensor(0.0)

    def quantize(self, x):
        """The rounded numbers, still multiplied with the scale, and the scale."""
        x = x.detach()
        m = x.abs().max()
        if not self.delayed or self.scale is None:
            assert torch.isfinite(m) and m > 0
            self.scale = self.largest / m
        self.met = torch.maximum(self.met, m)
        limit = LARGEST[self.dtype]
        return (x * self.scale).clamp(-limit, limit).to(self.dtype).to(torch.float32), self.scale

    def end_step(self):
        if not self.delayed:
            return
        self.history = (self.history + [self.met])[-self.length :]
        self.met = torch.tensor(0.0)
        self.scale = self.largest / torch.stack(self.history).max()


class Linear:
    """A linear layer of which all three products are of quantized tensors."""

    def __init__(self, case):
        self.input = Slot(case, E4M3)
        self.weight = Slot(case, E4M3)
        self.gradient = Slot(case, E5M2 if case["format"] == "hybrid" else E4M3)

    def __call__(self, x, weight, bias=None):
        return Product.apply(x, weight, bias, self)

    def end_step(self):
        for slot in (self.input, self.weight, self.gradient):
            slot.end_step()


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, linear):
        x_codes, x_scale = linear.input.quantize(x)
        w_codes, w_scale = linear.weight.quantize(weight)
        ctx.save_for_backward(x_codes, x_scale, w_codes, w_scale)
        ctx.linear = linear
        y = x_codes @ w_codes.T * (1 / x_scale) * (1 / w_scale)
        return y if bias is None else y + bias

    @staticmethod
    def backward(ctx, dy):
        x_codes, x_scale, w_codes, w_scale = ctx.saved_tensors
        dy_codes, dy_scale = ctx.linear.gradient.quantize(dy)
        dx = dy_codes @ w_codes * (1 / dy_scale) * (1 / w_scale)
        dw = dy_codes.T @ x_codes * (1 / dy_scale) * (1 / x_scale)
        return dx, dw, dy.sum(0) if ctx.needs_input_grad[2] else None, None


class Model:
    """Qwen2: RMSNorm, rotary grouped-query attention with biases on q, k, v, SwiGLU, tied embeddings."""

    def __init__(self, config, parameters, case):
        self.config = config
        self.parameters = parameters
        # Without a case everything stays in fp32.
        names = [(layer, name) for layer in range(config["num_hidden_layers"])
                 for name in ("qkv", "proj", "fc1", "fc2")]
        self.linears = {name: Linear(case) if case else torch.nn.functional.linear for name in names}

    def norm(self, x, name):
        mean = x.square().mean(-1, keepdim=True)
        return x * torch.rsqrt(mean + self.config["rms_norm_eps"]) * self.parameters[name]

    def rotate(self, x):
        """x (samples, heads, positions, columns)."""
        half = x.shape[-1] // 2
        theta = self.config["rope_parameters"]["rope_theta"]
        frequencies = theta ** (-torch.arange(half, dtype=torch.float64) / half)
        angles = torch.arange(x.shape[2], dtype=torch.float64)[:, None] * frequencies[None, :]
        cos, sin = angles.cos().float(), angles.sin().float()
        first, second = x[..., :half], x[..., half:]
        return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)

    def attention(self, qkv, samples):
        heads, kv_heads = self.config["num_attention_heads"], self.config["num_key_value_heads"]
        size = self.config["hidden_size"] // heads
        q, k, v = qkv.split([heads * size, kv_heads * size, kv_heads * size], -1)
        q, k, v = (x.view(samples, SEQ, -1, size).transpose(1, 2) for x in (q, k, v))
        k, v = self.rotate(k).repeat_interleave(heads // kv_heads,
                                                1), v.repeat_interleave(heads // kv_heads, 1)
        scores = self.rotate(q) @ k.transpose(-1, -2) / size**0.5
        scores = scores.masked_fill(torch.ones(SEQ, SEQ).triu(1).bool(), float("-inf"))
        return (scores.softmax(-1) @ v).transpose(1, 2).reshape(samples * SEQ, heads * size)

    def layer(self, index, x, samples):
        prefix = f"model.layers.{index}."
        of = lambda name: self.parameters[prefix + name]  # noqa: E731
        together = lambda names, kind: torch.cat([of(f"{name}.{kind}") for name in names])  # noqa: E731
        heads = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"]
        norm = self.norm(x, prefix + "input_layernorm.weight")
        qkv = self.linears[index, "qkv"](norm, together(heads, "weight"), together(heads, "bias"))
        x = x + self.linears[index, "proj"](self.attention(qkv, samples), of("self_attn.o_proj.weight"))
        norm = self.norm(x, prefix + "post_attention_layernorm.weight")
        fc1 = self.linears[index, "fc1"](norm, together(["mlp.gate_proj", "mlp.up_proj"], "weight"))
        gate, up = fc1.chunk(2, -1)
        return x + self.linears[index, "fc2"](torch.nn.functional.silu(gate) * up, of("mlp.down_proj.weight"))

    def loss(self, tokens):
        """Summed over the tokens of (samples, SEQ + 1)."""
        table = self.parameters["model.embed_tokens.weight"]
        x = table[tokens[:, :-1].flatten()]
        for index in range(self.config["num_hidden_layers"]):
            x = self.layer(index, x, tokens.shape[0])
        logits = self.norm(x, "model.norm.weight") @ table.T
        return torch.nn.functional.cross_entropy(logits, tokens[:, 1:].flatten(), reduction="sum")

    def step(self, tokens, index, samples=SAMPLES):
        """Leaves the gradients of the mean loss. Sample i starts at token i·SEQ; the tokens go round."""
        total = 0.0
        for first in range(index * samples, (index + 1) * samples, MICRO_BATCH):
            batch = numpy.stack([numpy.take(tokens, range(i * SEQ, i * SEQ + SEQ + 1), mode="wrap")
                                 for i in range(first, first + MICRO_BATCH)])
            loss = self.loss(torch.from_numpy(batch).long()) / (samples * SEQ)
            loss.backward()
            total += loss.item()
        return total

    def update(self):
        with torch.no_grad():
            for parameter in self.parameters.values():
                parameter -= LEARNING_RATE * parameter.grad
                parameter.grad = None
        for linear in self.linears.values():
            linear.end_step()


def fresh(root, noise=0.0):
    return {name: (value * (1 + noise * torch.randn_like(value))).requires_grad_()
            for name, value in load_file(root / "qwen2" / "model.safetensors").items()}


def train(case, root, config, tokens, noise=0.0):
    """The loss of every step, and the gradients of the first."""
    model = Model(config, fresh(root, noise), case)
    losses = []
    for index in range(STEPS):
        losses.append(model.step(tokens, index))
        if index == 0:
            gradients = {name: value.grad.clone() for name, value in model.parameters.items()}
        model.update()
    return losses, gradients


def is_stable(case, root, config, tokens):
    losses, gradients = train(case, root, config, tokens)
    for _ in range(TRIES):
        other, found = train(case, root, config, tokens, NOISE)
        if any(abs(a / b - 1) > 2e-3 for a, b in zip(other, losses, strict=True)):
            return False
        if any((found[name] - value).abs().max() > 1e-4 * value.abs().max()
               for name, value in gradients.items()):
            return False
    return True


def stable_tokens(case, root, config, like):
    for seed in range(10_000):
        tokens = numpy.random.default_rng(seed).integers(0, config["vocab_size"], like.size, like.dtype)
        if is_stable(case, root, config, tokens):
            return tokens
    raise SystemExit("found no tokens whose numbers keep away from rounding boundaries")


def make(name, case, root, config, like):
    tokens = stable_tokens(case, root, config, like)
    losses, gradients = train(case, root, config, tokens)
    folder = root / "fp8" / name
    folder.mkdir(parents=True, exist_ok=True)
    numpy.save(folder / "tokens.npy", tokens)
    save_file(gradients, folder / "gradients.safetensors")
    expected = {"loss": losses[0], "losses": losses, "torch": torch.__version__}
    (folder / "expected.json").write_text(json.dumps(expected, indent=2) + "\n")
    (folder / "run.yaml").write_text(
        f"# The golden qwen2 model in eight bits: its losses and first gradients must be those beside this "
        f"file.\n"
        f"model: ../../qwen2/config.json\nweights: ../../qwen2\ndata: tokens.npy\n"
        f"seq_length: {SEQ}\nmicro_batch_size: {MICRO_BATCH}\nglobal_batch_size: {SAMPLES}\n"
        f"precision: fp32\nmake_vocab_size_divisible_by: 1\n"
        f"fp8_format: {case['format']}\nfp8_recipe: {case['recipe']}\n"
        f"fp8_margin: {case['margin']}\nfp8_amax_history_len: {case['history']}\n"
        f"optimizer: sgd\nlearning_rate: {LEARNING_RATE}\nclip_grad: 0\nwarmup_steps: 0\nsteps: {STEPS}\n"
    )
    print(f"{name}: losses {losses}")


def main():
    torch.set_num_threads(1)
    torch.manual_seed(7)
    torch.use_deterministic_algorithms(True)
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
    config = json.loads((root / "qwen2" / "config.json").read_text())
    tokens = numpy.load(root / "qwen2" / "tokens.npy")
    plain = Model(config, fresh(root), None)
    loss = plain.step(tokens, 0, samples=8)
    expected = json.loads((root / "qwen2" / "expected.json").read_text())["loss"]
    assert abs(loss / expected - 1) < 1e-6, (loss, expected)
    for name, gradient in load_file(root / "qwen2" / "gradients.safetensors").items():
        found = plain.parameters[name].grad
        assert (found - gradient).abs().max() < 1e-5 * gradient.abs().max(), name
    for name, case in CASES.items():
        make(name, case, root, config, tokens)


if __name__ == "__main__":
    main()

"""Makes the golden files of multi-token prediction: losses and gradients by PyTorch in double precision.

    python make_mtp.py [FOLDER]        needs torch, safetensors, numpy

Models, their weights and tokens are those of make_families.py; the MTP modules' weights are drawn here.
Everything is written out: DeepSeek-V3 (arXiv:2412.19437 section 2.2, equations 21 to 25) with the choices of
Megatron-Core's MultiTokenPredictionLayer. Embeddings come first in the pair, hidden states are those after a
norm (the final norm's, a module's), and a token after the end of a sequence has no target. Without modules
the loss must be the one that transformers gave make_families.py. FOLDER/mtp/<name> gets a checkpoint with
DeepSeek-V3's names, run.yaml, gradients.safetensors and expected.json. The latter has the main loss, every
module's loss, and the main losses of STEPS steps of AdamW.
"""

import json
import pathlib
import shutil
import sys

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))

import torch
from numpy import load
from safetensors.torch import load_file, save_file
from torch.nn.functional import cross_entropy, embedding, silu

SEQ = 16
SAMPLES = 8
LR = 1e-3
DECAY = 0.01
STEPS = 4

CASES = {  # modules, scaling factor
    "qwen3": (2, 0.3),  # tied embeddings, a chain of two
    "deepseek_v3": (1, 0.1),  # an MoE model with latent attention
}


def rms(x, weight, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def angles(config, width):
    theta = config["rope_parameters"]["rope_theta"]
    frequencies = theta ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.arange(SEQ, dtype=torch.float64)[:, None] * frequencies


def rotate(a, b, angle):
    return a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()


def rotate_halves(x, angle):
    return torch.cat(rotate(*x.chunk(2, -1), angle), -1)


def rotate_neighbours(x, angle):
    return torch.stack(rotate(x[..., 0::2], x[..., 1::2], angle), -1).flatten(-2)


def attend(q, k, v):
    """(batch, heads, tokens, width) each."""
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    hidden = torch.ones(SEQ, SEQ, dtype=torch.bool).triu(1)
    return torch.softmax(scores.masked_fill(hidden, float("-inf")), -1) @ v


class Model:
    def __init__(self, config, tensors, modules, factor):
        self.config = config
        self.modules = modules
        self.factor = factor
        self.w = {
            name: tensor.double().requires_grad_(not name.endswith("e_score_correction_bias"))
            for name, tensor in tensors.items()
        }

    def heads(self, x, count):
        return x.unflatten(-1, (count, -1)).transpose(1, 2)

    def attention(self, p, x):
        c = self.config
        h = c["num_attention_heads"]
        lin = lambda name, y: y @ self.w[p + name + ".weight"].T
        if "kv_lora_rank" not in c:
            g = c["num_key_value_heads"]
            angle = angles(c, c["head_dim"])
            norm = lambda name, y: rms(y, self.w[p + name + ".weight"], c["rms_norm_eps"])
            q = rotate_halves(norm("q_norm", self.heads(lin("q_proj", x), h)), angle)
            k = rotate_halves(norm("k_norm", self.heads(lin("k_proj", x), g)), angle)
            v = self.heads(lin("v_proj", x), g)
            k, v = (t.repeat_interleave(h // g, 1) for t in (k, v))
        else:
            nope, rope, rank = c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["kv_lora_rank"]
            angle = angles(c, rope)
            compressed = rms(lin("q_a_proj", x), self.w[p + "q_a_layernorm.weight"], 1e-6)
            q_nope, q_rope = self.heads(lin("q_b_proj", compressed), h).split([nope, rope], -1)
            latent, k_rope = lin("kv_a_proj_with_mqa", x).split([rank, rope], -1)
            latent = rms(latent, self.w[p + "kv_a_layernorm.weight"], 1e-6)
            k_nope, v = self.heads(lin("kv_b_proj", latent), h).split([nope, c["v_head_dim"]], -1)
            k_rope = rotate_neighbours(k_rope[:, None], angle).expand(-1, h, -1, -1)
            q = torch.cat([q_nope, rotate_neighbours(q_rope, angle)], -1)
            k = torch.cat([k_nope, k_rope], -1)
        return lin("o_proj", attend(q, k, v).transpose(1, 2).flatten(-2))

    def mlp(self, p, x):
        lin = lambda name, y: y @ self.w[p + name + ".weight"].T
        return lin("down_proj", silu(lin("gate_proj", x)) * lin("up_proj", x))

    def experts(self, p, x):
        c = self.config
        scores = torch.sigmoid(x @ self.w[p + "gate.weight"].T)
        choice = scores.detach() + self.w[p + "gate.e_score_correction_bias"]
        groups = choice.unflatten(-1, (c["n_group"], -1))
        best = groups.topk(2, -1).values.sum(-1).topk(c["topk_group"], -1).indices
        open_ = torch.zeros(groups.shape[:-1], dtype=torch.bool).scatter(-1, best, True)
        chosen = groups.masked_fill(~open_[..., None],
                                    0.0).flatten(-2).topk(c["num_experts_per_tok"], -1).indices
        weights = scores.gather(-1, chosen)
        weights = weights / weights.sum(-1, keepdim=True) * c["routed_scaling_factor"]
        every = torch.stack([self.mlp(f"{p}experts.{i}.", x) for i in range(c["n_routed_experts"])], -2)
        picked = every.gather(-2, chosen[..., None].expand(*chosen.shape, x.shape[-1]))
        return (weights[..., None] * picked).sum(-2) + self.mlp(p + "shared_experts.", x)

    def layer(self, index, x):
        p = f"model.layers.{index}."
        eps = self.config["rms_norm_eps"]
        x = x + self.attention(p + "self_attn.", rms(x, self.w[p + "input_layernorm.weight"], eps))
        y = rms(x, self.w[p + "post_attention_layernorm.weight"], eps)
        dense = index < self.config.get("first_k_dense_replace", 1 << 30)
        return x + (self.mlp if dense else self.experts)(p + "mlp.", y)

    def losses(self, ids):
        """Losses of the model and of every module, from (SAMPLES, SEQ + 1) ids."""
        table = self.w["model.embed_tokens.weight"]
        out = table if self.config["tie_word_embeddings"] else self.w["lm_head.weight"]
        eps = self.config["rms_norm_eps"]
        inputs = ids[:, :SEQ]
        x = embedding(inputs, table)
        layers = self.config["num_hidden_layers"]
        for index in range(layers):
            x = self.layer(index, x)
        hidden = rms(x, self.w["model.norm.weight"], eps)
        losses = [cross_entropy((hidden @ out.T).flatten(0, 1), ids[:, 1:].flatten())]
        for k in range(1, self.modules + 1):
            p = f"model.layers.{layers + k - 1}."
            inputs = torch.cat([inputs[:, 1:], torch.zeros(len(ids), 1, dtype=torch.long)], 1)
            pair = [rms(embedding(inputs, table), self.w[p + "enorm.weight"], eps),
                    rms(hidden, self.w[p + "hnorm.weight"], eps)]
            x = self.layer(layers + k - 1, torch.cat(pair, -1) @ self.w[p + "eh_proj.weight"].T)
            hidden = rms(x, self.w[p + "shared_head.norm.weight"], eps)
            logits = (hidden @ out.T)[:, : SEQ - k]
            losses.append(cross_entropy(logits.flatten(0, 1), ids[:, k + 1 :].flatten()))
        return losses

    def total(self, losses):
        if self.modules == 0:
            return losses[0]
        return losses[0] + self.factor / self.modules * sum(losses[1:])


def with_modules(tensors, config, modules):
    """A layer more for every module, drawn like the last one, and what only modules have."""
    generator = torch.Generator().manual_seed(7)
    layers, h = config["num_hidden_layers"], config["hidden_size"]
    last = f"model.layers.{layers - 1}."
    draw = lambda *shape: torch.randn(*shape, generator=generator) * 0.08
    for k in range(modules):
        p = f"model.layers.{layers + k}."
        for name, tensor in sorted(tensors.items()):
            if name.startswith(last):
                tensors[p + name[len(last) :]] = tensor.mean() + draw(*tensor.shape)
        for name in ("enorm", "hnorm", "shared_head.norm"):
            tensors[f"{p}{name}.weight"] = 1 + draw(h)
        tensors[f"{p}eh_proj.weight"] = 2 * draw(h, 2 * h)
    return {name: tensor.contiguous() for name, tensor in tensors.items()}


def samples_of(tokens, step):
    stream = tokens[(step * SAMPLES * SEQ + torch.arange(SAMPLES * SEQ + 1)) % len(tokens)]
    return torch.stack([stream[i * SEQ : i * SEQ + SEQ + 1] for i in range(SAMPLES)])


def steps(model, tokens):
    trained = [w for w in model.w.values() if w.requires_grad]
    groups = [dict(params=[w for w in trained if w.dim() > 1], weight_decay=DECAY),
              dict(params=[w for w in trained if w.dim() == 1], weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=(0.9, 0.95), eps=1e-8)
    main = []
    for step in range(STEPS):
        optimizer.zero_grad()
        losses = model.losses(samples_of(tokens, step))
        model.total(losses).backward()
        main.append(losses[0].item())
        optimizer.step()
    return main


def make(folder, name, modules, factor):
    source = folder / "families" / name
    target = folder / "mtp" / name
    target.mkdir(parents=True, exist_ok=True)
    config = json.loads((source / "config.json").read_text())
    tokens = torch.from_numpy(load(source / "tokens.npy")).long()
    plain = load_file(source / "model.safetensors")
    alone = Model(config, plain, 0, 0).losses(samples_of(tokens, 0))[0].item()
    known = json.loads((source / "expected.json").read_text())["loss"]
    assert abs(alone / known - 1) < 1e-6, (name, alone, known)
    tensors = with_modules(dict(plain), config, modules)
    model = Model(config, tensors, modules, factor)
    losses = model.losses(samples_of(tokens, 0))
    model.total(losses).backward()
    gradients = {name: w.grad.float() for name, w in model.w.items() if w.grad is not None}
    save_file(tensors, target / "model.safetensors")
    save_file(gradients, target / "gradients.safetensors")
    for file in ("config.json", "tokens.npy"):
        shutil.copy(source / file, target / file)
    text = (source / "run.yaml").read_text().replace("The golden",
                                                     "With modules that predict further tokens, the golden")
    (target / "run.yaml").write_text(f"{text}mtp_num_layers: {modules}\nmtp_loss_scaling_factor: {factor}\n")
    expected = {
        "loss": losses[0].item(),
        "module_losses": [loss.item() for loss in losses[1:]],
        "losses": steps(Model(config, tensors, modules, factor), tokens),
        "versions": {"torch": torch.__version__},
    }
    (target / "expected.json").write_text(json.dumps(expected, indent=2) + "\n")


def main():
    torch.set_num_threads(1)
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
    for name, (modules, factor) in CASES.items():
        make(folder, name, modules, factor)


if __name__ == "__main__":
    main()

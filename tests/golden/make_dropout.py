"""Makes the golden files of dropout: loss and gradients of the golden models by PyTorch and transformers.

    python make_dropout.py [FOLDER]        needs torch, transformers, safetensors, numpy

The models, weights and tokens are those of make_golden.py. Dropout follows bench/training/dropout.md, with a
Philox of its own. In gpt2 fixed masks replace transformers' dropout modules. qwen2, which drops only in
attention, gets masks on the embedding, the output projection of attention and the MLP. FOLDER/dropout/<name>
gets run.yaml, gradients.safetensors (of the first step) and expected.json. "losses" are those of three steps
that change no weight.
"""

import json
import pathlib
import sys

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))

import numpy
import torch
import transformers
from make_golden import SAMPLES, SEQ
from safetensors.torch import save_file

STEPS = 3

CASES = {
    # The seed is taken modulo 2^32; two sequences in a micro-batch.
    "qwen2": dict(hidden=0.1, attention=0.2, seed=2**32 + 7, micro_batch_size=2),
    "gpt2": dict(hidden=0.15, attention=0.1, seed=11, micro_batch_size=1),
}


def philox(key, counter):
    """Philox4x32-10 (Salmon et al., SC'11). `counter` is four arrays; returns four."""
    low = numpy.uint64(0xFFFFFFFF)
    shift = numpy.uint64(32)
    x = [numpy.asarray(part).astype(numpy.uint64) for part in counter]
    k = list(key)
    for _ in range(10):
        first = x[0] * numpy.uint64(0xD2511F53)
        second = x[2] * numpy.uint64(0xCD9E8D57)
        x = [
            (second >> shift) ^ x[1] ^ numpy.uint64(k[0]),
            second & low,
            (first >> shift) ^ x[3] ^ numpy.uint64(k[1]),
            first & low,
        ]
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    return x


def check_philox():
    """Two of the known answers that come with Random123."""
    known = [
        ((0, 0), (0, 0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (
            (0xA4093822, 0x299F31D0),
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ]
    for key, counter, expected in known:
        found = [int(part[0]) for part in philox(key, [[part] for part in counter])]
        assert found == list(expected), [hex(part) for part in found]


class Masks:
    """Factors 0 or 1/(1 - p) of one step, for all samples of the global batch at once."""

    def __init__(self, case, step):
        self.case = case
        self.key = (case["seed"] % 2**32, step)

    def factors(self, probability, rows, columns, site, head):
        row = numpy.arange(rows)[:, None]
        column = numpy.arange(columns)[None, :]
        zero = numpy.zeros((rows, columns), dtype=numpy.uint64)
        words = numpy.stack(philox(self.key, [column // 4 + zero, row + zero, site + zero, head + zero]))
        chosen = numpy.take_along_axis(words, (column % 4 + zero).astype(numpy.int64)[None], axis=0)[0]
        kept = chosen >= int(probability * 2**32)
        return torch.from_numpy(kept.astype(numpy.float32)) / (1 - probability)

    def hidden(self, site, x):
        """x (samples, SEQ, hidden)."""
        factors = self.factors(self.case["hidden"], x.shape[0] * x.shape[1], x.shape[2], site, 0)
        return x * factors.view(x.shape)

    def attention(self, layer, weights):
        """weights (samples, heads, query, key)."""
        samples, heads, queries, keys = weights.shape
        factors = torch.empty_like(weights)
        for head in range(heads):
            of_head = self.factors(self.case["attention"], samples * queries, keys, 3 * layer + 3, 1 + head)
            factors[:, head] = of_head.view(samples, queries, keys)
        return weights * factors


class FixedDropout(torch.nn.Module):
    def __init__(self, state, site):
        super().__init__()
        self.state, self.site = state, site

    def forward(self, x):
        return self.state["masks"].hidden(self.site, x)


def drop_hidden(name, model, state):
    """Puts the masks where the residual stream loses elements."""
    if name == "gpt2":
        model.transformer.drop = FixedDropout(state, 0)
        for layer, block in enumerate(model.transformer.h):
            block.attn.resid_dropout = FixedDropout(state, 3 * layer + 1)
            block.mlp.dropout = FixedDropout(state, 3 * layer + 2)
        return [block.attn for block in model.transformer.h]

    def hook(module, site):
        module.register_forward_hook(lambda _module, _inputs, output: state["masks"].hidden(site, output))

    hook(model.model.embed_tokens, 0)
    for layer, block in enumerate(model.model.layers):
        hook(block.self_attn.o_proj, 3 * layer + 1)
        hook(block.mlp, 3 * layer + 2)
    return [block.self_attn for block in model.model.layers]


def drop_attention(attentions, state):
    """Eager attention drops by torch.nn.functional.dropout, once per layer; no other code calls it any
    more."""
    for layer, attention in enumerate(attentions):
        attention.register_forward_pre_hook(lambda _module, _inputs, layer=layer: state.update(layer=layer))

    def dropout(weights, p=0.0, training=True, inplace=False):
        state["calls"] = state.get("calls", 0) + 1
        return state["masks"].attention(state["layer"], weights)

    torch.nn.functional.dropout = dropout


def loss_of(model, tokens, step):
    """Sample i starts at token i·SEQ; the tokens go round."""
    first = (step - 1) * SAMPLES
    samples = numpy.stack([numpy.take(tokens, range(i * SEQ, i * SEQ + SEQ + 1), mode="wrap")
                           for i in range(first, first + SAMPLES)])
    samples = torch.from_numpy(samples).long()
    logits = model(input_ids=samples[:, :-1], use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), samples[:, 1:].flatten())


def make(name, case, root):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        root / name, dtype=torch.float32, attn_implementation="eager"
    )
    model.eval()
    tokens = numpy.load(root / name / "tokens.npy")
    expected_without = json.loads((root / name / "expected.json").read_text())["loss"]
    without = loss_of(model, tokens, 1).item()
    assert abs(without / expected_without - 1) < 1e-6, (without, expected_without)

    state = {}
    attentions = drop_hidden(name, model, state)
    drop_attention(attentions, state)
    losses = []
    for step in range(1, STEPS + 1):
        state["masks"] = Masks(case, step)
        loss = loss_of(model, tokens, step)
        losses.append(loss.item())
        if step == 1:
            loss.backward()
    assert state["calls"] == STEPS * len(attentions), state["calls"]
    gradients = {key: parameter.grad.contiguous() for key, parameter in model.named_parameters()}

    folder = root / "dropout" / name
    folder.mkdir(parents=True, exist_ok=True)
    save_file(gradients, folder / "gradients.safetensors")
    expected = {
        "loss": losses[0],
        "losses": losses,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    (folder / "expected.json").write_text(json.dumps(expected, indent=2) + "\n")
    (folder / "run.yaml").write_text(
        f"# The golden {name} model with dropout: its loss and gradients must be those beside this file.\n"
        f"model: ../../{name}/config.json\nweights: ../../{name}\ndata: ../../{name}/tokens.npy\n"
        f"seq_length: {SEQ}\nmicro_batch_size: {case['micro_batch_size']}\nglobal_batch_size: {SAMPLES}\n"
        f"precision: fp32\nmake_vocab_size_divisible_by: 1\n"
        f"hidden_dropout: {case['hidden']}\nattention_dropout: {case['attention']}\nseed: {case['seed']}\n"
    )
    print(f"{name}: losses {losses}, without dropout {without}")


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    check_philox()
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
    for name, case in CASES.items():
        original = torch.nn.functional.dropout
        make(name, case, root)
        torch.nn.functional.dropout = original


if __name__ == "__main__":
    main()

"""Makes the golden files: tiny random models, their loss and gradients by PyTorch and transformers.

    python make_golden.py [FOLDER]        needs torch, transformers, safetensors, numpy

For every model FOLDER/<name> gets config.json and model.safetensors (a Hugging Face checkpoint), tokens.npy,
gradients.safetensors (every parameter, Hugging Face names, not clipped), expected.json and run.yaml. Sample i
is tokens[i * seq : i * seq + seq + 1]. The loss is the mean next-token cross-entropy over all samples, fp32,
eager attention. The same versions on the same processor type give the same files; elsewhere the last digits
differ.
"""

import json
import pathlib
import sys

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))

import numpy
import torch
import transformers
from safetensors.torch import save_file

SEQ = 16
SAMPLES = 8

COMMON = dict(vocab_size=117, hidden_size=16, intermediate_size=24, max_position_embeddings=64,
              rms_norm_eps=1e-5)
# Sizes that FP8 can multiply: multiples of 16.
WIDER = {**COMMON, "hidden_size": 32, "intermediate_size": 32}

MODELS = {
    # Tied embeddings, biases on q, k, v only, 8 query heads over 2 key/value heads.
    "qwen2": transformers.Qwen2Config(
        **WIDER,
        num_hidden_layers=3,
        num_attention_heads=8,
        num_key_value_heads=2,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4},
    ),
    # Untied, heads wider than hidden / heads, rotary frequencies, some of them scaled.
    "llama": transformers.LlamaConfig(
        **COMMON,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        tie_word_embeddings=False,
        rope_parameters={
            "rope_type": "llama3",
            "rope_theta": 1e3,
            "factor": 4.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 48,
        },
    ),
    # LayerNorm, learned positions (more than are used), GELU, biases everywhere, tied.
    "gpt2": transformers.GPT2Config(
        vocab_size=101,
        n_embd=16,
        n_layer=2,
        n_head=4,
        n_positions=24,
        resid_pdrop=0,
        embd_pdrop=0,
        attn_pdrop=0,
        bos_token_id=None,
        eos_token_id=None,
    ),
    # Every layer with a sliding window.
    "mistral": transformers.MistralConfig(
        **COMMON,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        sliding_window=5,
        tie_word_embeddings=False,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4},
    ),
    # Windows in some layers.
    "qwen2_window": transformers.Qwen2Config(
        **WIDER,
        num_hidden_layers=3,
        num_attention_heads=8,
        num_key_value_heads=2,
        use_sliding_window=True,
        sliding_window=7,
        max_window_layers=0,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4},
    ),
}


def randomise(model, generator):
    """No parameter may be zero or one by accident: norms around 1, biases around 0, matrices scaled by
    fan-in."""
    for name, parameter in model.named_parameters():
        values = torch.randn(parameter.shape, generator=generator)
        if parameter.dim() > 1:
            table = any(part in name for part in ("wte", "wpe", "embed"))
            values *= 0.5 if table else parameter.shape[-1] ** -0.5
        elif name.endswith("weight"):
            values = 1 + 0.3 * values
        else:
            values *= 0.2
        with torch.no_grad():
            parameter.copy_(values)
    for name, buffer in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            buffer.copy_(0.2 * torch.randn(buffer.shape, generator=generator))


def loss_of(model, tokens):
    samples = torch.stack([tokens[i * SEQ : i * SEQ + SEQ + 1] for i in range(SAMPLES)]).long()
    logits = model(input_ids=samples[:, :-1], use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), samples[:, 1:].flatten())


def make(name, config, folder, seed):
    generator = torch.Generator().manual_seed(seed)
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32,
                                                          attn_implementation="eager")
    model.eval()
    randomise(model, generator)
    tokens = torch.randint(config.vocab_size, (SAMPLES * SEQ + 1,), generator=generator, dtype=torch.int32)

    loss = loss_of(model, tokens)
    loss.backward()
    gradients = {key: p.grad.contiguous() for key, p in model.named_parameters() if p.requires_grad}
    norm = torch.sqrt(sum((g.double() ** 2).sum() for g in gradients.values())).item()

    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    save_file(gradients, folder / "gradients.safetensors")
    numpy.save(folder / "tokens.npy", tokens.numpy())
    expected = {
        "loss": loss.item(),
        "gradient_norm": norm,
        "parameters": sum(p.numel() for p in model.parameters()),
        "seq_length": SEQ,
        "global_batch_size": SAMPLES,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    (folder / "expected.json").write_text(json.dumps(expected, indent=2) + "\n")
    (folder / "run.yaml").write_text(
        f"# The golden {name} model as a run: its loss and gradients must be those beside this file.\n"
        "model: config.json\nweights: .\ndata: tokens.npy\n"
        f"seq_length: {SEQ}\nmicro_batch_size: 1\nglobal_batch_size: {SAMPLES}\nprecision: fp32\n"
        "make_vocab_size_divisible_by: 1\n"
    )
    largest = {key: gradient.abs().max().item() for key, gradient in gradients.items()}
    print(f"{name}: loss {expected['loss']:.6f}, smallest of the tensors' largest gradients "
          f"{min(largest.values()):.3g}")


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
    for seed, (name, config) in enumerate(MODELS.items(), start=1):
        make(name, config, folder / name, seed)


if __name__ == "__main__":
    main()

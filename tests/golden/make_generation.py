"""Makes generation.safetensors: greedy continuations by transformers' generate, for the golden models.

    python make_generation.py [FOLDER]        needs torch, transformers, safetensors

For every golden checkpoint NAME that a class of transformers reads, the file has NAME/tokens, a row per
prompt: its ids, the NEW_TOKENS ids that generate() adds to it alone, and -1 behind; and
NAME/log_probabilities of the added ids. Where the checkpoint has fewer positions, rotary ones go on, and
tables of learned ones are lengthened. Prompts are drawn until, in every step, the second best token is MARGIN
behind the best: ids that differ are errors, not ties. MARGIN is ten times the tolerance of log-probabilities.
"""

import copy
import pathlib
import sys

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))

import torch
import transformers
from make_families import MODELS
from make_golden import MODELS as GOLDEN
from safetensors.torch import save_file

LENGTHS = (3, 8, 1)  # one of them longer than the windows of 5
NEW_TOKENS = 64
POSITIONS = max(LENGTHS) + NEW_TOKENS
MARGIN = 1e-4
DRAWS = 20


def prompts_of(vocab, seed):
    return [[(seed * 31 + i * 17 + length * 7) % vocab for i in range(length)] for length in LENGTHS]


def lengthen(table, rows):
    """A table of learned positions with more rows: its own again and again, by 3/4, 2/4 and 1/4."""
    count = table.shape[0]
    row = torch.arange(rows)
    return table[row % count] * (1 - (row // count) / 4).unsqueeze(1)


def model_of(folder, name):
    place = folder / name
    # transformers 5.24 adds falcon's ALiBi twice in eager attention.
    attention = "sdpa" if "falcon" in name else "eager"
    short = transformers.AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32,
                                                              attn_implementation=attention)
    config = copy.deepcopy(short.config)
    positions = "n_positions" if hasattr(config, "n_positions") else "max_position_embeddings"
    if getattr(config, positions, POSITIONS) >= POSITIONS:
        model = short
    else:
        setattr(config, positions, POSITIONS)
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32,
                                                              attn_implementation=attention)
        weights = short.state_dict()
        for key, value in model.state_dict().items():
            if value.shape != weights[key].shape:
                weights[key] = lengthen(weights[key], value.shape[0])
        model.load_state_dict(weights)
    model.eval()
    model.generation_config.eos_token_id = None
    return model


def continue_greedily(model, prompt):
    """Ids, their log-probabilities, and the smallest distance to the second best."""
    made = model.generate(
        torch.tensor([prompt]),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
        generation_config=transformers.GenerationConfig(
            do_sample=False, max_new_tokens=NEW_TOKENS, return_dict_in_generate=True, output_logits=True,
            pad_token_id=0
        ),
    )
    ids = made.sequences[0, len(prompt) :]
    scores = torch.stack([torch.log_softmax(step[0].double(), -1) for step in made.logits])
    best = scores.topk(2, -1).values
    return ids, scores.gather(1, ids.unsqueeze(1)).squeeze(1), (best[:, 0] - best[:, 1]).min().item()


def continuations(model, name):
    for seed in range(1, DRAWS):
        prompts = prompts_of(model.config.vocab_size, seed)
        ids, scores, margins = zip(*(continue_greedily(model, each) for each in prompts), strict=True)
        print(f"{name}: draw {seed}, smallest margin {min(margins):.2g}", flush=True)
        if min(margins) >= MARGIN:
            break
    else:
        sys.exit(f"{name}: no draw of {DRAWS} without a near tie")
    tokens = torch.full((len(prompts), POSITIONS), -1, dtype=torch.int32)
    for row, prompt, added in zip(tokens, prompts, ids, strict=True):
        row[: len(prompt) + NEW_TOKENS] = torch.cat([torch.tensor(prompt), added])
    return {f"{name}/tokens": tokens, f"{name}/log_probabilities": torch.stack(scores).float()}


def main():
    torch.set_num_threads(1)
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    tensors = {}
    with torch.no_grad():
        for name in [*GOLDEN, *(f"families/{each}" for each in MODELS)]:
            tensors |= continuations(model_of(folder, name), name)
    save_file(tensors, folder / "generation.safetensors", metadata=versions)


if __name__ == "__main__":
    main()

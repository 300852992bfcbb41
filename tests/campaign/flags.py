"""Random combinations of options: done or refused, nothing else."""
from .bench import one_line

NUMBERS = ["0", "1", "2", "3", "4", "7", "8", "64", "1000000", "-1", "99999999999999999999", "1.5", "nan",
           "1e9", "", "x"]
SCHEDULES = ["gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-auto", "zb-v", "v-half", "v-min",
             "dualpipe",
             "dualpipev", "vocab-1", "abeja", "bubble-fill", "no-such", "costs.json", ""]
SIZES = ["1", "2", "3", "4", "8"]
SCHEDULE_OPTIONS = {"--pp": SIZES + NUMBERS, "--microbatches": SIZES + NUMBERS, "--chunks": SIZES + NUMBERS,
                    "--group": SIZES + NUMBERS, "--memory-limit": SIZES + NUMBERS, "--transfers": None}
CONFIG_OPTIONS = {
    "--tp": SIZES + NUMBERS, "--pp": SIZES + NUMBERS, "--dp": SIZES + NUMBERS, "--mbs": SIZES + NUMBERS,
    "--gbs": SIZES + NUMBERS, "--world-size": SIZES + NUMBERS, "--zero-stage": ["0", "1", "2", "3", "4"],
    "--precision": ["fp32", "bf16", "fp16", "fp8", "int4"], "--pipeline-schedule": SCHEDULES,
    "--sequence-parallel": ["true", "false", "maybe"],
    "--recompute-granularity": ["none", "full", "selective", "half"],
    "--recompute-modules": ["core_attn", "layernorm", "layernorm,mlp", "moe_act", "mlps", "mlp,", ""],
    "--memory-budget": ["1KiB", "1GiB", "0", "-1", "1e99GiB", "x"],
    "--backend": ["cpu", "emulated", "cuda", "tpu"],
    "--hardware": ["h100-sxm-80gb", "v100-sxm-32gb", "costs.json", "./none.json", "x"], "--seed": NUMBERS,
    "--set": ["tensor_model_parallel_size=2", "seq_length=0", "seq_length=99999999", "no_such=1", "=",
              "model={", "steps"],
    "--virtual-pipeline-chunks": SIZES, "--hidden-dropout": ["0", "0.1", "1", "2", "-1", "nan"],
    "--vocab-parallel": ["none", "vocab-1", "vocab-2", "interlaced", "x"],
    "--teacher": ["qwen2.5-1.5b", "run.yaml", "x"],
    "--layer-distribution": ["balanced", "even", "1,1", "x"], "--json": None, "--quiet": None,
}
COMMANDS = {
    "predict run.yaml": {**CONFIG_OPTIONS, "--explain": None, "--what-limits": None, "--parameters": NUMBERS},
    "predict": {"--parameters": NUMBERS, "--precision": ["fp32", "bf16"], "--dp": NUMBERS, "--json": None},
    "schedule": {**SCHEDULE_OPTIONS, "--send-waits": None, "--compare": SCHEDULES,
                 "--format": ["text", "csv", "json", "timeline", "svg", "trace", "perfetto", "png"]},
    "simulate": {**SCHEDULE_OPTIONS, "--schedule": SCHEDULES, "--costs": ["costs.json", "run.yaml", "none"],
                 "--json": None, "--timeline": None, "--svg": ["a.svg", "none/a.svg", "/dev/full", ""],
                 "--trace": ["a.json", "a.pftrace", "/dev/full"], "--compare": SCHEDULES},
    "search run.yaml": {"--gpus": SIZES + NUMBERS, "--top": NUMBERS, "--threads": ["0", "1", "2", "-1"],
                        "--json": None,
                        "--hardware": ["h100-sxm-80gb", "x"]},
    "compare clean": {"--format": ["table", "csv", "json", "html", "megatron-bridge", "google-benchmark",
                                   "x"],
                      "--tolerance": ["5%", "0", "-1", "nan", "x"], "--json": None},
    "compare clean clean": {"--tolerance": ["5%", "0", "-1", "nan", "x"], "--format": ["table", "csv"]},
    "matrix matrix.yaml --predict-only --out flags-out": {**CONFIG_OPTIONS, "--retry": None},
    "validate": {"--table": ["x", "megatron"], "--tables": ["clean", "none"], "--json": None,
                 "--plot": ["v.svg", "none/v"]},
    "help": {"run": None, "configuration": None, "glossary": None, "nothing": None, "--json": None},
    "doctor": {"--json": None, "--quiet": None, "x": None},
    "completion": {"bash": None, "zsh": None, "fish": None, "csh": None},
}


def inject(bench, chance):
    command, options = chance.choice(list(COMMANDS.items()))
    words = command.split()
    if command == "schedule":
        words.append(chance.choice(SCHEDULES))
    for option in chance.sample(list(options), chance.randint(0, min(5, len(options)))):
        words += [option] if options[option] is None else [option, chance.choice(options[option])]
    if chance.random() < 0.1 and not command.startswith("matrix"):  # which could come to start ranks
        chance.shuffle(words)
    ended = bench.run(words, limit=60)
    findings = bench.check_end(ended, (0, 1, 2, 3, 4), binary="perfetto" in words)
    if ended.returncode in (2, 4):
        lines = [line for line in ended.stderr.splitlines() if line.strip() and not line.startswith("note: ")]
        if not 1 <= len(lines) <= 3:  # of the command line: also where the manual is
            findings.append(f"refused with {len(lines)} lines: {one_line(ended.stderr)}")
    return [f"plumbline {' '.join(word or repr(word) for word in words)}: {finding}" for finding in findings]

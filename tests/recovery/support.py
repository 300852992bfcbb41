"""A small run with checkpoints, and what its folder holds: shared by the scripts of this folder."""
import json
import os
import subprocess
import zlib
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent.parent
PROFILE = SOURCES / "results/recorded/xeon-2-cores/profile.json"


def write_config(path, hidden=64, layers=2, batch=16, sequence=32, vocabulary=128):
    path.write_text(f"""model: {{model_type: llama, num_hidden_layers: {layers}, hidden_size: {hidden},
        num_attention_heads: 4,
        num_key_value_heads: 2, intermediate_size: {2 * hidden}, vocab_size: {vocabulary},
        max_position_embeddings: {sequence},
        rms_norm_eps: 1.0e-6}}
seq_length: {sequence}
global_batch_size: {batch}
precision: fp32
warmup_steps: 0
timeout_s: 3000
hardware: {PROFILE}
""")


def environment(folder):
    (folder / "tmp").mkdir(exist_ok=True)
    return {**os.environ, "HOME": str(folder), "XDG_CACHE_HOME": "", "TMPDIR": str(folder / "tmp"),
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def measured(program, folder, arguments):
    """The record of a run."""
    command = [program, "run", "run.yaml", "--quiet", "--json", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment(folder), capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout)


def complete(saved):
    """Steps of the checkpoints under their final name, newest first."""
    names = [entry.name for entry in saved.iterdir()] if saved.exists() else []
    return sorted((int(name[5:]) for name in names if name.startswith("iter_") and name[5:].isdigit()),
                  reverse=True)


def unfinished(saved):
    return [entry.name for entry in saved.iterdir() if entry.suffix in (".partial", ".removed")]


def unreadable(saved):
    """A line for every complete checkpoint that is not what was written."""
    lines = []
    for step in complete(saved):
        folder = saved / f"iter_{step:07}"
        try:
            facts = json.loads((folder / "metadata.json").read_text())
            for number, shard in enumerate(facts["shards"]):
                data = (folder / f"shard_{number:05}.safetensors").read_bytes()
                if len(data) != shard["bytes"] or zlib.crc32(data) != shard["crc32"]:
                    lines.append(f"{folder.name}: shard {number} is not what was written")
        except FileNotFoundError:
            if folder.exists():  # else it was removed meanwhile, as an old one
                lines.append(f"{folder.name}: incomplete")
        except (ValueError, KeyError) as error:
            lines.append(f"{folder.name}: {error}")
    return lines


def ranks_of(folder):
    """Processes of ranks whose temporary files are in the folder, by rank."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(word.startswith(b"PLUMBLINE_RECORD_OUT=" + str(folder).encode()) for word in words):
            for word in words:
                if word.startswith(b"OMPI_COMM_WORLD_RANK="):
                    found[int(word.split(b"=")[1])] = int(entry.name)
    return found

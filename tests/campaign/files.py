"""Damaged files: each is accepted or refused with one line, soon."""
import shutil
import tempfile
from pathlib import Path

from .bench import COSTS, MATRIX, RUN, one_line, refusal_lines

SOON_S = 20  # of a busy machine
PIECES = [b"{", b"}", b"[", b"]", b",", b":", b'"', b"'", b"-", b"0", b"9", b"e", b"null", b"&a ", b"*a",
          b"? ", b"\n",
          b"  ", b"| ", b"99999999999999999999", b"1e999", b"-1", b"true", b"\\u0000", b"\xff", b"\0", b"NaN",
          b"\x1b[2J\x07", b"\xc2\x9b31m", b"\xe2\x80\xae",
          b"[" * 100_000, b"{\"a\":" * 50_000, b"- " * 3000, b"0," * 100_000, b"x" * 70_000]
OOM = RUN + "memory_budget: 1MiB\nmatrix:\n  micro_batch_size: [1, 2]\n" \
    "published:\n  source: nobody\n  cells:\n" \
            "    - {micro_batch_size: [1, 2], status: ok}\n"


def bases(bench):
    """name of the file -> (bytes, command)."""
    records = (bench.folder / "clean" / "results.jsonl").read_bytes()
    schedule = ["schedule", "1f1b", "--pp", "2", "--microbatches", "4", "--format"]
    golden = bench.sources / "tests" / "golden" / "gpt2"
    profile = (bench.sources / "results" / "recorded" / "xeon-2-cores" / "profile.json").read_bytes()
    made = {
        "bad.yaml": (RUN.encode(), ["predict", "bad.yaml"]),
        "bad-matrix.yaml": (MATRIX.encode(),
                            ["matrix", "bad-matrix.yaml", "--predict-only", "--out", "bad-out"]),
        "bad-oom.yaml": (OOM.encode(), ["oom", "bad-oom.yaml", "--predict-only", "--out", "bad-out"]),
        "profile.json": (profile, ["predict", "run.yaml", "--hardware", "./profile.json"]),
        "bad.jsonl": (records, ["compare", "bad.jsonl"]),
        "bad-html.jsonl": (records, ["compare", "bad-html.jsonl", "--format", "html"]),
        "bad-costs.json": (COSTS.encode(),
                           ["simulate", "--schedule", "1f1b", "--pp", "2", "--microbatches", "4",
                                            "--costs", "bad-costs.json"]),
        "bad.csv": (bench.run(schedule + ["csv"]).stdout.encode(), ["schedule", "bad.csv"]),
        "bad.json": (bench.run(schedule + ["json"]).stdout.encode(), ["schedule", "bad.json"]),
        "model.json": ((golden / "config.json").read_bytes(), ["predict", "model.yaml"]),
        "weights/model.safetensors": ((golden / "model.safetensors").read_bytes(),
                                      ["run", "weights.yaml", "--weights", "weights"]),
    }
    (bench.folder / "model.yaml").write_text(RUN[RUN.index("seq_length"):] + "model: model.json\n")
    shutil.copy(golden / "config.json", bench.folder / "gpt2.json")
    (bench.folder / "weights.yaml").write_text(RUN[RUN.index("seq_length"):] + "model: gpt2.json\n")
    return made


def damage(whole, chance):
    data = bytearray(whole)
    for _ in range(chance.randint(1, 3)):
        place = chance.randrange(len(data) + 1)
        what = chance.randrange(6)
        if what == 0 and place < len(data):
            data[place] = chance.randrange(256)
        elif what == 1:
            del data[place:place + chance.randint(1, 8)]
        elif what == 2:
            data[place:place] = chance.choice(PIECES)
        elif what == 3:
            data[place:place] = data[chance.randrange(len(data) + 1):][:chance.randint(0, 40)]
        elif what == 4:
            del data[place:]
        else:
            end = min(len(data), place + chance.randint(1, 200))
            data[place:end] = reversed(data[place:end])
    return bytes(data)


def inject(bench, chance):
    if not hasattr(bench, "bases"):
        bench.bases = bases(bench)
    names = list(bench.bases)
    name = chance.choices(names, [1 if "/" in each else 20 for each in names])[0]  # weights start ranks
    whole, command = bench.bases[name]
    path = bench.folder / name
    path.parent.mkdir(exist_ok=True)
    data = damage(whole, chance)
    path.write_bytes(data)
    ended = bench.run(command, limit=SOON_S)
    shutil.rmtree(bench.folder / "bad-out", ignore_errors=True)
    findings = bench.check_end(ended, (0, 2, 3, 4))
    if ended.returncode in (2, 4):
        # A run whose ranks failed reports it in place of its table.
        failed = [line for line in ended.stdout.splitlines() if line.startswith("failed: ")]
        lines = refusal_lines(ended.stderr) or [line.replace("failed: ", "plumbline: ") for line in failed]
        if len(lines) != 1 or not lines[0].startswith("plumbline: "):
            findings.append(f"refused with {len(lines)} lines: {one_line(ended.stderr)}")
    if not findings:
        return []
    findings = Path(tempfile.gettempdir()) / "plumbline-campaign-findings"
    kept = findings / f"{chance.getrandbits(32):08x}-{path.name}"
    kept.parent.mkdir(exist_ok=True)
    kept.write_bytes(data)
    return [f"{name}: {finding} (kept as {kept})" for finding in findings]

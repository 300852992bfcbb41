#!/usr/bin/env python3
"""Compares the predictions of two builds of plumbline: every number and every key, character by character.

    tests/same_predictions.py PROGRAM OUT            writes the program's predictions into the folder OUT
    tests/same_predictions.py PROGRAM OUT --like DIR and compares it with a folder that another build wrote
    … --like DIR --within 1e-9                       numbers may differ by this share of themselves, or of
                                                     1 if that is more

Run from the root of the sources. Asked are the predictions of all shipped matrices (records, tables, CSV and
the report page), `predict` with explanations and sensitivities, `validate`, `search`, `schedule` and
`simulate` in all formats, `oom`, and the trace of the emulated backend. Figures of the moment (times of day,
seconds of a search, this machine) are left out before comparing.
"""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))

MATRICES = sorted(Path("bench/matrices").glob("*.yaml"))
PROFILE = "results/recorded/xeon-2-cores/profile.json"
SCHEDULES = ["gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-auto", "zb-v", "v-half", "v-min",
             "dualpipe",
             "dualpipev", "vocab-1", "vocab-2", "interlaced", "v-half-vocab-1", "v-half-vocab-2", "nemo-2504",
             "abeja",
             "nemo-13065", "bubble-fill"]
FORMATS = ["text", "csv", "json", "timeline", "svg", "trace", "perfetto"]
PREDICTIONS = {
    "h100": [], "zero3": ["--zero-stage", "3", "--dp", "4"], "sp": ["--sequence-parallel", "true"],
    "full": ["--recompute-granularity", "full"], "selective": ["--recompute-granularity", "selective"],
    "zb-v": ["--pipeline-schedule", "zb-v"],
    "vocab-2": ["--vocab-parallel", "vocab-2", "--sequence-parallel", "false"],
    "interlaced": ["--vocab-parallel", "interlaced", "--sequence-parallel", "false"],
    "fp8": ["--precision", "fp8"],
    "interleaved": ["--pipeline-schedule", "interleaved", "--virtual-pipeline-chunks", "2"],
    "refused": ["--tp", "3"], "v-half-vocab-1": ["--pipeline-schedule", "v-half", "--vocab-parallel",
                                                 "vocab-1", "--sequence-parallel", "false"],
    "balanced": ["--layer-distribution", "balanced"],
    "dropout": ["--hidden-dropout", "0.1", "--attention-dropout", "0.1"],
}
VOLATILE_KEYS = {"machine", "seconds", "created", "timestamp", "elapsed_s", "search_s", "versions"}


def stable(value):
    """JSON without what depends on the moment or the machine."""
    if isinstance(value, dict):
        return {key: stable(part) for key, part in value.items() if key not in VOLATILE_KEYS}
    if isinstance(value, list):
        return [stable(part) for part in value]
    return value


def stable_text(text):
    text = text.replace(os.getcwd() + "/", "")
    try:
        return json.dumps(stable(json.loads(text)), indent=1)
    except ValueError:
        pass
    return re.sub(r"(?m)^(.* configurations (of .*)?on .*); (searched|stopped) .*$", r"\1", text)


class Snapshot:
    def __init__(self, program, out):
        self.program, self.out = os.path.abspath(program), Path(out)
        self.out.mkdir(parents=True)  # a matrix would continue where an earlier one stopped

    def ask(self, name, *arguments):
        """One file with what the command prints and how it ends."""
        done = subprocess.run([self.program, *map(str, arguments), "--quiet"], capture_output=True,
                              timeout=600)
        output = done.stdout
        try:
            output = stable_text(output.decode()).encode()
        except UnicodeDecodeError:
            pass  # Perfetto's binary trace
        (self.out / name).write_bytes(output + f"\nexit {done.returncode}\n".encode())
        return done

    def take(self):
        for name in SCHEDULES:
            size = ["--pp", 4, "--microbatches", 8]
            size += ["--chunks", 2] if name == "interleaved" else []
            for form in FORMATS:
                self.ask(f"schedule-{name}.{form}", "schedule", name, *size, "--format", form)
            self.ask(f"schedule-{name}-transfers.csv", "schedule", name, *size, "--transfers", "--format",
                     "csv")
            for form in ([], ["--json"], ["--timeline"]):
                self.ask(f"simulate-{name}{''.join(form)}", "simulate", "--schedule", name, *size, "--costs",
                         "bench/tour/costs.json", *form)
        for name, keys in PREDICTIONS.items():
            for form in ([], ["--json"], ["--explain"], ["--what-limits"]):
                self.ask(f"predict-{name}{''.join(form)}", "predict", "bench/tour/h100.yaml", *keys, *form)
        self.ask("predict-states", "predict", "--parameters", "7.5e9", "--dp", 64)
        for form in ([], ["--json"], ["--rows"], ["--leave-one-out"]):
            self.ask(f"validate{''.join(form)}", "validate", *form)
        for form in ([], ["--json"]):
            self.ask(f"search{''.join(form)}", "search", "bench/tour/h100.yaml", "--gpus", 64, "--top", 40,
                     *form)
        self.matrices()
        self.emulated()

    def matrices(self):
        for matrix in MATRICES:
            folder = self.out / f"matrix-{matrix.stem}"
            text = matrix.read_text()
            hardware = [] if re.search(r"^ *-? *\{?hardware:", text, re.M) else ["--hardware", PROFILE]
            self.ask(f"matrix-{matrix.stem}.txt", "matrix", matrix, "--predict-only", "--out", folder,
                     *hardware)
            if re.search(r"^published:", text, re.M):
                self.ask(f"oom-{matrix.stem}.txt", "oom", matrix, "--predict-only", "--out", folder,
                         *hardware)
            for form in ("table", "csv", "json", "html"):
                self.ask(f"compare-{matrix.stem}.{form}", "compare", folder, "--format", form)
            for path in folder.rglob("*"):
                if path.is_file() and path.suffix in (".json", ".jsonl"):
                    text = path.read_text().replace(os.getcwd() + "/", "")
                    lines = [json.dumps(stable(json.loads(line))) for line in text.splitlines() if line]
                    path.write_text("\n".join(lines) + "\n")
                elif path.is_file() and path.suffix not in (".csv", ".json", ".jsonl"):
                    path.unlink()

    def emulated(self):
        for name, keys in {"1f1b": [], "zb-v": ["--pipeline-schedule", "zb-v"],
                           "zero2": ["--dp", "2", "--zero-stage", "2"],
                           "vocab-1": ["--vocab-parallel", "vocab-1", "--sequence-parallel",
                                       "false"]}.items():
            trace = self.out / f"emulated-{name}.json"
            record = self.ask(f"run-emulated-{name}.json", "run", "bench/tour/h100.yaml", "--backend",
                              "emulated",
                              "--emulated-time-factor", "0", "--gbs", "16", "--json", "--trace", trace, *keys)
            # With that factor nothing waits, so that measured times are this machine's own.
            result = json.loads(record.stdout or "{}")
            kept = [result.get("prediction"), result.get("measurement", {}).get("memory")]
            (self.out / f"run-emulated-{name}.json").write_text(json.dumps(kept, indent=1))
            events = json.loads(trace.read_text())["traceEvents"] if trace.exists() else []
            predicted = {event["pid"] for event in events
                         if event["name"] == "process_name" and "predicted" in event["args"]["name"]}
            trace.write_text("\n".join(json.dumps(event) for event in events if event["pid"] in predicted))


NUMBER = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")


def alike(one, other, within):
    """Texts with the same words whose numbers are as close as asked for. Binary files are not read."""
    if one == other or b"\0" in one:
        return True
    if NUMBER.sub(b"#", one).split() != NUMBER.sub(b"#", other).split():
        return False
    # The last digit that is printed may be one off as well.
    def close(a, b):
        step = 10.0 ** -len(a.partition(b".")[2]) if b"." in a and b"e" not in a.lower() else 0
        return abs(float(a) - float(b)) <= within * max(abs(float(a)), abs(float(b)),
                                                        1) + 1.001 * step * (step > 1e-10)
    return all(a == b or close(a, b) for a, b in zip(NUMBER.findall(one), NUMBER.findall(other)))


def differences(one, other, within):
    names = {path.relative_to(folder) for folder in (one, other) for path in folder.rglob("*")
             if path.is_file()}
    for name in sorted(names):
        a, b = one / name, other / name
        if not (a.exists() and b.exists() and alike(a.read_bytes(), b.read_bytes(), within)):
            yield name


def main():
    program, out = sys.argv[1], sys.argv[2]
    Snapshot(program, out).take()
    if "--like" not in sys.argv:
        return 0
    other = sys.argv[sys.argv.index("--like") + 1]
    if "--within" not in sys.argv:
        return subprocess.run(["diff", "-rq", other, out]).returncode
    found = list(differences(Path(other), Path(out), float(sys.argv[sys.argv.index("--within") + 1])))
    for name in found:
        print(f"{name} differs")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

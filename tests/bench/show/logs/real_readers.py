#!/usr/bin/env python3
"""Has TensorBoard and MLPerf's compliance checker read the logs of a run and of a matrix.

    real_readers.py PROGRAM

Needs the packages tensorboard and mlperf-logging (pip install tensorboard; pip install --no-deps
mlperf-logging). Exit code 77 without both; with one, the other's part is skipped.
"""

import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError:
    EventAccumulator = None
try:
    from mlperf_logging.compliance_checker.mlp_parser import ruleset_500
    from mlperf_logging.mllog import constants
except ImportError:
    ruleset_500 = constants = None

MODEL = """model: {model_type: qwen2, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4,
        num_key_value_heads: 2, intermediate_size: 96, vocab_size: 128, max_position_embeddings: 64,
        rms_norm_eps: 1.0e-6, tie_word_embeddings: true}
seq_length: 16
global_batch_size: 4
precision: fp32
"""


def scalars_in(folder):
    """Tag -> {step: value}, as TensorBoard has them."""
    events = EventAccumulator(folder)
    events.Reload()
    return {tag: {point.step: point.value for point in events.Scalars(tag)} for tag in events.Tags()["scalars"]}


def near(value, expected):
    assert abs(value - expected) <= 1e-6 * abs(expected), (value, expected)  # single precision


def check_events(folder, record):
    measured = record["measurement"]
    found = scalars_in(os.path.join(folder, "measured"))
    warm_up = len(measured["losses"]) - len(measured["steps"])
    assert sorted(found["loss"]) == list(range(1, len(measured["losses"]) + 1))
    for step, loss in enumerate(measured["losses"], 1):
        near(found["loss"][step], loss)
    for step, timed in enumerate(measured["steps"], warm_up + 1):
        near(found["time/step_s"][step], timed["step_s"])
    predicted = scalars_in(os.path.join(folder, "predicted"))
    near(predicted["memory/peak_bytes"][len(measured["losses"])], record["prediction"]["memory"]["peak_bytes"])
    assert len(set(predicted["time/step_s"].values())) == 1


def check_lines(file, record):
    lines, errors = ruleset_500.parse_file(file)
    with open(file, encoding="utf-8") as text:
        assert not errors and len(lines) == len(text.readlines()), errors
    known = {value for name, value in vars(constants).items() if name.isupper()}
    for line in lines:
        own = '"namespace":"plumbline"' in line.full_string or line.key == "tracked_stats"
        assert own or line.key in known, line.key
    times = [line.timestamp for line in lines]
    assert times == sorted(times)
    by_key = {line.key: line.value["value"] for line in lines}
    assert by_key["global_batch_size"] == 4
    assert by_key["time/step_s"] == record["measurement"]["time"]["step_s"]
    statistics = [line.value for line in lines if line.key == "tracked_stats"]
    assert [each["value"]["loss"] for each in statistics] == record["measurement"]["losses"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    given = parser.parse_args()
    if EventAccumulator is None and ruleset_500 is None:
        print("skipped: neither tensorboard nor mlperf-logging is installed")
        sys.exit(77)
    program = os.path.abspath(given.program)
    with tempfile.TemporaryDirectory() as folder:
        def say(*words):
            return json.loads(subprocess.run([program, *words, "--json"], check=True, cwd=folder,
                                             capture_output=True, text=True).stdout)

        with open(os.path.join(folder, "run.yaml"), "w", encoding="utf-8") as file:
            file.write(MODEL)
        with open(os.path.join(folder, "matrix.yaml"), "w", encoding="utf-8") as file:
            file.write(MODEL + "matrix: {micro_batch_size: [1, 2]}\n")
        record = say("run", "run.yaml", "--steps", "4", "--mllog", "run.log", "--tensorboard", "events")
        cells = say("matrix", "matrix.yaml", "--mllog", "logs", "--tensorboard", "cells")
        if EventAccumulator is None:
            print("tensorboard is not installed: event files were not read")
        else:
            check_events(os.path.join(folder, "events"), record)
            for cell in cells:
                check_events(os.path.join(folder, "cells", cell["id"]), cell)
        if ruleset_500 is None:
            print("mlperf-logging is not installed: log lines were not read")
        else:
            check_lines(os.path.join(folder, "run.log"), record)
            assert len(glob.glob(os.path.join(folder, "logs", "*.log"))) == len(cells) == 2
            for cell in cells:
                check_lines(os.path.join(folder, "logs", cell["id"] + ".log"), cell)
    print("read: 1 run, 2 cells")


if __name__ == "__main__":
    main()

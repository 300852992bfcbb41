#!/usr/bin/env python3
"""Are the tests awake? Puts one fault at a time into the code and runs the tests of that folder.

    tests/seeded_faults.py [--only NAME]      from the root of the sources; writes build/seeded-faults
    tests/seeded_faults.py --check            only checks that the code still holds what the table replaces

The sources are copied, every fault of the table below is put in behind a switch, and everything is built
once. A test that passes with all switches off and fails with one on has caught that fault. A fault that no
test caught is printed and makes the exit status 1. Takes as long as a build and some minutes.
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))

# folder, file, the right code, the wrong code, tests (a regular expression for ctest -R)
FAULTS = [
    ("core/tensor", "core/tensor/arena.cpp", "current_total_ > peak_total_", "current_total_ >= peak_total_",
     "^(arena_test|memory_agreement_test.2ranks)$"),
    ("core/parallel", "core/parallel/layout.cpp", "mine.data / context * context, context",
     "mine.data / context, context", "^layout_test$"),
    ("core/config", "core/config/run_config.cpp", "(model.vocab + multiple - 1) / multiple * multiple",
     "model.vocab / multiple * multiple", "^(run_config_test|memory_model_test|action_memory_test)$"),
    ("core/trace", "core/trace/trace.cpp", "idle / busy", "idle / window",
     "^(trace_test|simulator_test)$"),
    ("core/run", "core/run/emulated_clock.cpp", "std::max(busy_until_, moment)", "moment",
     "^(emulated_clock_test|emulated_communicator_test.2ranks)$"),
    ("core/backends", "core/backends/mpi/reduce_ops.cpp", "op == ReduceOp::sum", "true",
     "^mpi_communicator_test.2ranks$"),
    ("schedules", "schedules/one_f_one_b.cpp", "std::min(ranks - 1 - rank + ahead, microbatches)",
     "std::min(ranks - rank + ahead, microbatches)", "^(generators_test|plan_test)$"),
    ("kernels/cpu", "kernels/cpu/norms.cpp", "r * r * r * sum(products)",
     "r * r * sum(products)", "^cpu_operators_test$"),
    ("analysis/hardware", "analysis/hardware/measured_times.cpp", "latency_s + size / size_per_s",
     "size / size_per_s",
     "^(hardware_test|collective_seconds_test)$"),
    ("analysis/work", "analysis/work/flops.cpp", "flops_of_model(*config.distillation.teacher) / 3.0",
     "flops_of_model(*config.distillation.teacher) / 2.0",
     "^(distillation_test|flops_test)$"),
    ("analysis/memory", "analysis/memory/persistent_memory.cpp",
     "2 * (s.stream.seq / s.cp.ranks) * (s.attention.rotated / 2)",
     "(s.stream.seq / s.cp.ranks) * (s.attention.rotated / 2)",
     "^(memory_model_test|action_memory_test|memory_agreement_test.1ranks)$"),
    ("analysis/simulate", "analysis/simulate/closed_forms.cpp", "(f + b - w) * (p - 1)", "(f + b) * (p - 1)",
     "^(simulator_test|generators_test|schedule_sweep_test)$"),
    ("analysis/time", "analysis/time/accelerator_time.cpp", "std::max(streaming, elements * device.random_s)",
     "streaming", "^(dropout_time_test|time_model_test)$"),
    ("analysis/predict", "analysis/predict/predict.cpp",
     "busy * (1 - shares.tensor - shares.data - shares.copies) - waited",
     "busy * (1 - shares.tensor - shares.copies) - waited",
     "^(time_model_test|step_end_test|vocabulary_time_test)$"),
    ("analysis/search", "analysis/search/search.cpp", "front_.offer(found);", "(void)found;",
     "^(cluster_model_test|validate_search_test)$"),
    ("analysis/published", "analysis/published/dialect/measured_values.cpp",
     'row.number("peak_gib", 1e6) * kBytesPerGiB',
     'row.number("peak_gib", 1e6) * 1e9', "^cluster_published_test$"),
    ("bench/record", "bench/record/record_store.cpp", 'to_line(record) + "\\n"', 'to_line(record)',
     "^(record_store_test|matrix_runner_test)$"),
    ("bench/matrix", "bench/matrix/matrix_runner.cpp", "if (record == nullptr) return 0;",
     "if (record == nullptr || options.retry) return 0;", "^matrix_runner_test$"),
    ("bench/show/history", "bench/show/history/regression.cpp", "if (std::abs(relative) <= tolerance) return;",
     "if (std::abs(relative) <= 2 * tolerance) return;", "^report_exports_test$"),
    ("bench/training/layer", "bench/training/layer/stream_rows.cpp",
     "return linear_weight_gradient(context, dy, x, gradient.weight, wide_dy, dbias);",
     "return static_cast<void>(wide_dy.data == dbias.data);", "^golden_step_test.1ranks$"),
    ("bench/training/ends", "bench/training/ends/vocabulary_shard.cpp",
     "microbatch + 1 < microbatches_.size()",
     "microbatch + 2 < microbatches_.size()", "^vocabulary_step_test.2ranks$"),
    ("bench/training/stage", "bench/training/stage/optimizer.cpp", "config.weight_decay},",
     "0.0},", "^whole_run_test.1ranks$"),
    ("bench/training/optimizers", "bench/training/optimizers/newton_schulz.cpp",
     "operators.weighted_sum(x, k.a, product, 1, x);", "operators.weighted_sum(x, k.c, product, 1, x);",
     "^optimizer_step_test.1ranks$"),
    ("bench/training/weights", "bench/training/weights/random_weights.cpp", "index / 4, block",
     "i / 4, block",
     "^parallel_step_test.2ranks$"),
    ("bench/training/trainer", "bench/training/trainer/step_data.cpp",
     "microbatch * config_.parallel.data() + replica_",
     "microbatch + replica_", "^parallel_step_test.2ranks$"),
]

SWITCH = """// One fault is on when PLUMBLINE_FAULT is its number.
#pragma once
#include <cstdlib>
inline bool plumbline_fault(int number) {
  static const int on = std::getenv("PLUMBLINE_FAULT") ? std::atoi(std::getenv("PLUMBLINE_FAULT")) : 0;
  return on == number;
}
"""


def seeded(text, number, right, wrong):
    """A statement becomes two, an expression a choice."""
    if right not in text:
        raise SystemExit(f"fault {number}: the code does not hold {right!r} any more; adapt the table")
    if right.endswith(";"):
        changed = f"if (plumbline_fault({number})) {{ {wrong} }} else {{ {right} }}"
    else:
        changed = f"(plumbline_fault({number}) ? ({wrong}) : ({right}))"
    return text.replace(right, changed, 1)


def check():
    """Lists the rows of the table whose code is gone."""
    root = Path(__file__).parent.parent
    gone = [f"{file}: {right!r} is gone; adapt FAULTS" for _, file, right, _, _ in FAULTS
            if not (root / file).exists() or right not in (root / file).read_text()]
    print("\n".join(gone) or f"{len(FAULTS)} faults apply")
    return 1 if gone else 0


def main():
    if "--check" in sys.argv:
        return check()
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else None
    faults = FAULTS
    tree = Path("build/seeded-faults").absolute()
    tree.mkdir(parents=True, exist_ok=True)
    files = subprocess.run(["git", "ls-files"], capture_output=True, text=True,
                           check=True).stdout.split("\n")[:-1]
    texts = {}
    for number, (_, file, right, wrong, _) in enumerate(faults, 1):
        texts[file] = seeded(texts.get(file) or Path(file).read_text(), number, right, wrong)
    for file in files:
        to = tree / file
        content = texts[file].encode() if file in texts else Path(file).read_bytes()
        if not to.exists() or to.read_bytes() != content:
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(content)
            shutil.copymode(file, to)
    # Tests of published tables look for them next to the sources.
    published, link = Path("../shared").absolute(), tree.parent / "shared"
    if published.exists() and not link.exists():
        link.symlink_to(published)
    switch = tree / "fault_switch.hpp"
    if not switch.exists() or switch.read_text() != SWITCH:
        switch.write_text(SWITCH)
    # The copy's own warnings are about the switches.
    configure = ["cmake", "--preset", "release", "-DPLUMBLINE_WITH_CUDA=OFF",
                 f"-DCMAKE_CXX_FLAGS=-include {switch} -Wno-error"]
    subprocess.run(configure, cwd=tree, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", "--preset", "release"], cwd=tree, check=True)

    def passes(tests, number):
        environment = dict(os.environ, PLUMBLINE_FAULT=str(number))
        run = subprocess.run(["ctest", "--preset", "release", "-R", tests, "--stop-on-failure", "--timeout",
                              "200"], cwd=tree,
                             env=environment, capture_output=True, text=True)
        failed = re.search(r"Test +#\d+: (\S+) \.+\**(Failed|Timeout|Exception|Not Run)", run.stdout)
        return None if run.returncode == 0 else (failed.group(1) if failed else "?")

    missed = 0
    for number, (room, file, right, wrong, tests) in enumerate(faults, 1):
        if only and only not in room:
            continue
        before = passes(tests, 0)
        caught = passes(tests, number)
        good = before is None and caught is not None
        missed += not good
        print(f"{number:2} {'caught' if good else 'MISSED'}  {room:24} {caught or '-':32} {right.strip()} -> "
              f"{wrong.strip()}",
              flush=True)
    print(f"{len(faults)} faults, {missed} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

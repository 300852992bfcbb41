"""Exchanges schedules with torch.distributed.pipelining, both ways.

Usage: pytorch_cross_check.py FOLDER

FOLDER holds <name>.csv (compute only) and <name>.comms.csv (with transfers and send waits) for the schedules
to check. PyTorch loads and validates each; its simulator runs the form with transfers. PyTorch's own
schedules are written to FOLDER/torch_*.csv for the C++ side to load. Exit code 77 (skip) if torch cannot be
imported.
"""

import csv
import pathlib
import sys

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))

try:
    from torch.distributed.pipelining import schedules
    from torch.distributed.pipelining._schedule_visualizer import get_schedule_ops
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)


def read(path):
    with open(path, newline="") as file:
        return {rank: [schedules._Action.from_str(cell) for cell in row]
                for rank, row in enumerate(csv.reader(file))}


def sizes(actions):
    parts = [
        part for row in actions.values() for action in row if action is not None
        for part in (action.sub_actions or (action,))
    ]
    return 1 + max(part.stage_index for part in parts), 1 + max(part.microbatch_index for part in parts)


def check(path):
    actions = read(path)
    stages, microbatches = sizes(actions)
    return schedules._validate_schedule(actions, len(actions), stages, microbatches), stages


def main(folder):
    count = 0
    for path in sorted(folder.glob("*.csv")):
        if path.name.startswith("torch_") or path.name.endswith(".comms.csv"):
            continue
        stage_to_rank, stages = check(path)
        with_comms = read(path.with_name(path.stem + ".comms.csv"))
        if hasattr(schedules, "_validate_send_waits"):
            schedules._validate_send_waits(with_comms)
        # The simulator of PyTorch knows transfers and single compute actions; waits are the runtime's.
        plain = {
            rank: [
                part for a in row if not a.computation_type.value.startswith("WAIT")
                for part in (a.sub_actions or (a,))
            ] for rank, row in with_comms.items()
        }
        schedules._simulate_comms_compute(plain, lambda stage: stage_to_rank[stage], stages)
        count += 1
    own = 0
    # 1F1B is left out: PyTorch 2.15's visualizer numbers the last rank's forwards from 1, which is no valid
    # schedule.
    for name, ranks, microbatches in (("GPipe", 4, 8), ("Interleaved1F1B", 4, 8),
                                      ("InterleavedZeroBubble", 4, 8), ("ZBVZeroBubble", 4, 8),
                                      ("DualPipeV", 4, 8),
                                      ("LoopedBFS", 4, 8)):
        for comms in (False, True):
            try:
                ops = get_schedule_ops(schedule=name, pp_degree=ranks, num_microbatches=microbatches,
                                       with_comms=comms)
            except Exception as error:  # not every release offers every schedule in both forms
                print(f"torch offers no {name} (with_comms={comms}): {error}")
                continue
            with open(folder / f"torch_{name}{'_comms' if comms else ''}.csv", "w", newline="") as file:
                writer = csv.writer(file)
                for row in ops:
                    writer.writerow(["" if cell is None else str(cell) for cell in row])
            own += 1
    print(f"torch accepted {count} schedules and wrote {own}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))

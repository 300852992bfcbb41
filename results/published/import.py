#!/usr/bin/env python3
"""Published training runs, as their sources print them, in the dialect of this folder.

    import.py SOURCE_DIR OUT_DIR

For every .csv of SOURCE_DIR with the columns of a known kind of source, writes OUT_DIR/NAME.csv and
NAME.yaml. Rows may come in any order and with any values. Every row is either in a table or in
OUT_DIR/not_imported.txt. The latter gives the reason: missing or unknown values, figures that contradict each
other, a repeated row.
"""

import csv
import pathlib
import sys

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))

from importer.checks import contradiction, definition_for, number, tokens_per_step, too_many_flops
from importer.headers import FEATURES, header_of
from importer.parts import Unplaced, is_mixture, require
from importer.sources import kind_of

FIRST = ["label", "model", "model_type", "num_hidden_layers", "hidden_size", "num_attention_heads",
         "num_key_value_heads",
         "head_dim", "intermediate_size", "vocab_size", "hardware", "software", "world_size",
         "tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size",
         "expert_model_parallel_size", "data_parallel_size", "virtual_pipeline_chunks", "seq_length",
         "micro_batch_size", "num_microbatches", "global_batch_size", "precision"]
LAST = ["flops", "peak_tflops", "step_s", "tokens_per_s", "tokens_per_s_per_gpu", "model_tflops_per_gpu",
        "mfu_percent",
        "peak_bytes", "peak_gib", "peak_gb", "source"]
MEASURED = LAST[2:-1]
TIMED = [column for column in MEASURED if column not in ("model_tflops_per_gpu", "mfu_percent")]


def printed_flops_per_token(cells):
    """Model FLOPs per token that the printed figures imply together; None without them."""
    tokens, gpus, step = tokens_per_step(cells), number(cells, "world_size"), number(cells, "step_s")
    rate = number(cells, "tokens_per_s") or (number(cells, "tokens_per_s_per_gpu") or 0) * (gpus or 0)
    rate = rate or (tokens / step if tokens and step else 0)
    tflops = number(cells, "model_tflops_per_gpu")
    if tflops is None and number(cells, "mfu_percent") and number(cells, "peak_tflops"):
        tflops = number(cells, "mfu_percent") / 100 * number(cells, "peak_tflops")
    return tflops * 1e12 * gpus / rate if tflops and gpus and rate else None


def name_flops(cells):
    """Sets the definition by which the source counts FLOPs. Without one the rate is dropped if a time is
    there."""
    printed = printed_flops_per_token(cells)
    if printed and not cells.get("flops"):
        definition = definition_for(cells, printed)
        if definition:
            cells["flops"] = definition
    if not cells.get("flops"):
        cells.pop("peak_tflops", None)
        if any(cells.get(column) for column in TIMED):
            for column in ("mfu_percent", "model_tflops_per_gpu"):
                cells.pop(column, None)
    return printed


def add_flag(cells, flag):
    cells["other_flags"] = ";".join(filter(None, [cells.get("other_flags"), flag]))


def has_feature(cells):
    return any(cells.get(column) not in (None, without) for column, without in FEATURES.items())


def placed(row, convert):
    """The row in the dialect. Raises Unplaced."""
    cells = {column: str(value) for column, value in convert(row).items() if str(value) != ""}
    cells["source"] = cells.get("source") or row.get("source", "")
    if not any(cells.get(column) for column in MEASURED):
        raise Unplaced("no measured value")
    missing = require(cells)
    if missing == "micro_batch_size":
        cells[missing] = "unstated"
        missing = require(cells)
    if missing and (is_mixture(cells) or cells.get("multi_latent_attention")):
        # MoE rows are few: the row is counted as not modelled, with its missing features.
        add_flag(cells, f"{missing} is not printed")
    elif missing and not has_feature(cells):
        raise Unplaced(f"{missing} is not printed")
    printed = name_flops(cells)
    if not cells.get("flops") and not any(cells.get(column) for column in TIMED):
        add_flag(cells, "the definition of FLOPs is not printed")
    if printed and too_many_flops(cells, printed):
        raise Unplaced(f"contradicts itself: {printed / 1e9:.0f} GFLOP per token are too many for its active "
                       "parameters")
    reason = contradiction(cells)
    if reason:
        raise Unplaced(reason)
    return cells, printed


def same_model(row, cells):
    """Key of the facts that FLOPs per token depend on, as far as the row gives them; adapters alone train
    with fewer."""
    return row.get("model"), cells.get("seq_length"), cells.get("num_hidden_layers"), cells.get("frozen")


def deviates(figures, cells, printed, row_number):
    """A model's FLOPs per token are the same in all rows of a source: the median of the others tells."""
    others = [value for number, value in figures if number != row_number]
    if cells.get("flops") or not printed or len(others) < 3:
        return None
    median = sorted(others)[len(others) // 2]
    if abs(printed / median - 1) <= 0.25:
        return None
    return (f"contradicts itself: {printed / 1e9:.1f} GFLOP per token, {median / 1e9:.1f} in the other rows "
            "of this model")


def read_rows(path):
    """The column names and the rows of a file; neither of one that is no table."""
    try:
        with open(path, newline="", encoding="utf-8-sig", errors="replace") as file:
            reader = csv.DictReader(file)
            columns = reader.fieldnames or []
            return columns, [{key: (value or "").strip() for key, value in row.items() if key}
                             for row in reader]
    except csv.Error:
        return [], []


def import_table(rows, name, convert, out):
    """Writes one table; returns how many rows it has and (row, reason) of the others."""
    kept, left, seen, figures = [], [], {}, {}
    for line, row in enumerate(rows, 1):
        try:
            cells, printed = placed(row, convert)
        except Unplaced as reason:
            left.append((line, str(reason)))
            continue
        except (ArithmeticError, KeyError, TypeError, ValueError) as error:
            left.append((line, f"cannot be read: {error}"))
            continue
        key = tuple(sorted((k, v) for k, v in cells.items() if k not in ("label", "source")))
        if key in seen:
            left.append((line, f"repeats row {seen[key]}"))
            continue
        seen[key] = line
        kept.append((line, row, cells, printed))
        if printed:
            figures.setdefault(same_model(row, cells), []).append((line, printed))
    table = []
    for line, row, cells, printed in kept:
        reason = deviates(figures.get(same_model(row, cells), []), cells, printed, line)
        if reason:
            left.append((line, reason))
        else:
            table.append(cells)
    if table:
        write_table(table, name, convert, out)
    return len(table), sorted(left)


def write_table(table, name, convert, out):
    used = {column for cells in table for column in cells}
    middle = sorted(used - set(FIRST) - set(LAST))
    columns = [column for column in FIRST + middle + LAST if column in used]
    # Values that all rows share are written once, in the header.
    shared = {column: table[0].get(column) for column in columns
              if len(table) > 1 and column not in MEASURED + ["label"] and
              all(cells.get(column) == table[0].get(column) for cells in table)}
    with open(out / f"{name}.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        columns = [column for column in columns if column not in shared]
        writer.writerow(columns)
        writer.writerows([cells.get(column, "") for column in columns] for cells in table)
    (out / f"{name}.yaml").write_text(header_of(convert.__name__, shared), encoding="utf-8")


def main(arguments):
    if len(arguments) != 2:
        sys.exit("usage: import.py SOURCE_DIR OUT_DIR")
    source, out = (pathlib.Path(each) for each in arguments)
    if not source.is_dir():
        sys.exit(f"{source}: not a folder; expected one with .csv files of published runs")
    out.mkdir(parents=True, exist_ok=True)
    lines = []
    for path in sorted(source.glob("*.csv")):
        columns, rows = read_rows(path)
        convert = kind_of(columns)
        if convert is None:
            lines.append(f"{path.name}: holds no training runs that are known by its columns")
            continue
        count, left = import_table(rows, path.stem, convert, out)
        print(f"{path.name}: {count} rows, {len(left)} not imported")
        lines += [f"{path.name} row {line}: {reason}" for line, reason in left]
    (out / "not_imported.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

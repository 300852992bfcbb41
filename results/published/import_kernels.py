#!/usr/bin/env python3
"""Measured efficiencies of kernel shapes, as SimuMax prints them, as analysis/hardware/kernel_rates.csv.

    import_kernels.py SOURCE.csv OUT.csv

SOURCE has the columns system, op, shape, peak_tflops, efficiency and source; rows may come in any order.
Shapes measured more than once, in several layouts of their operands, get the mean. Heads with values of
another size are listed under the mean of both sizes. Rows without a place in the table (weight gradients of
grouped products in 16 bit) are counted with the reason.
"""

import collections
import csv
import math
import sys

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))

ACCELERATORS = {"B200-SXM": ("b200-sxm-180gb", 2250), "A100-PCIe-80GB": ("a100-pcie-80gb", 312)}
# Layout of the operands, type of the result: the purpose of the product.
PRODUCTS = {("TN", "bf16"): "forward", ("NN", "bf16"): "input_gradient", ("NT", "fp32"): "weight_gradient",
            ("NT", "bf16"): "weight_gradient_16bit"}
# Products of experts: rows of each, width of the result and of the input of the forward, for all three
# passes.
GROUPED = {"fwd": "grouped_forward", "bwd_grad_act": "grouped_input_gradient",
           "bwd_grad_w": "grouped_weight_gradient"}
ATTENTION = {"sdp_fwd": "attention_forward", "sdp_bwd": "attention_backward"}


def placed(row):
    """(key of the table, efficiency), or (None, why not)."""
    accelerator = ACCELERATORS.get(row["system"])
    if accelerator is None:
        return None, f"the system {row['system']} is not known"
    if float(row["peak_tflops"]) != accelerator[1]:
        return None, f"efficiency of {row['peak_tflops']} TFLOP/s, expected {accelerator[1]}"
    shape = dict(part.strip().split("=") for part in row["shape"].split(","))
    share = float(row["efficiency"])
    if row["op"] == "matmul":
        kernel = PRODUCTS.get((shape["layout"], shape["out_dtype"]))
        if kernel is None or shape["b"] != "1":
            return None, "a product in another layout"
        return (accelerator[0], kernel, int(shape["m"]), int(shape["n"]), int(shape["k"])), share
    if row["op"] in ATTENTION:
        size = (int(shape["qk_head_dim"]) + int(shape["v_head_dim"])) // 2
        return (accelerator[0], ATTENTION[row["op"]], int(shape["batch"]) * int(shape["head_num"]),
                int(shape["seq_len"]),
                size), share
    if row["op"] == "group_matmul":
        kernel = GROUPED[shape["stage"]]
        if kernel == "grouped_weight_gradient" and shape["main_grad_dtype"] != "fp32":
            return None, "a grouped weight gradient in 16 bit"
        return (accelerator[0], kernel, int(shape["M"]), int(shape["N"]), int(shape["K"])), share
    return None, f"the operator {row['op']} is not known"


def main(arguments):
    if len(arguments) != 2:
        sys.exit("usage: import_kernels.py SOURCE.csv OUT.csv")
    table, left, sources = collections.defaultdict(list), collections.Counter(), set()
    with open(arguments[0], newline="", encoding="utf-8") as file:
        for line, row in enumerate(csv.DictReader(file), 1):
            try:
                key, value = placed(row)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                sys.exit(f"{arguments[0]}: row {line}: cannot be read ({error})")
            if key is None:
                left[value] += 1
            else:
                table[key].append(value)
                sources.add(row["source"])
    with open(arguments[1], "w", encoding="utf-8") as file:
        for source in sorted(sources):
            file.write(f"# {source}\n")
        file.write("accelerator,kernel,m,n,k,share\n")
        for key in sorted(table):
            file.write(",".join(map(str, key)) + f",{math.fsum(table[key]) / len(table[key]):.5g}\n")
    print(f"{sum(map(len, table.values()))} measurements, {len(table)} shapes")
    for reason, count in sorted(left.items()):
        print(f"not in the table: {count} ({reason})")


if __name__ == "__main__":
    main(sys.argv[1:])

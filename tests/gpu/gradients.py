"""Gradients that runs have saved (--save-gradients), compared tensor by tensor."""
import array
import json
import math
import struct

TOLERANCE = 1e-3  # of fp32: other orders of sums make 1e-5, a step without its update 1e-1


def read(path):
    """Tensors of an fp32 safetensors file, by name."""
    with open(path, "rb") as file:
        data = file.read()
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8:begin]).items():
        if name == "__metadata__":
            continue
        if entry["dtype"] != "F32":
            raise ValueError(f"{path}: {name} has dtype {entry['dtype']}, expected F32")
        first, last = entry["data_offsets"]
        tensors[name] = array.array("f")
        tensors[name].frombytes(data[begin + first:begin + last])
    return tensors


def norm(values):
    return math.sqrt(sum(value * value for value in values))


def worst_difference(found, wanted):
    """(relative L2 norm of the difference, name) of the worst tensor. Infinite for a tensor that is missing,
    has another size or is not finite."""
    worst = (0.0, "")
    for name in sorted(set(found) | set(wanted)):
        if name not in found or name not in wanted or len(found[name]) != len(wanted[name]):
            return math.inf, name
        apart = norm([x - y for x, y in zip(found[name], wanted[name])])
        of_all = norm(wanted[name])
        ratio = apart / of_all if of_all > 0 else (math.inf if apart > 0 else 0.0)
        if not math.isfinite(ratio):
            return math.inf, name
        worst = max(worst, (ratio, name))
    return worst


def total_difference(found, wanted):
    """L2 norm of the difference of all tensors over that of `wanted`; infinite as above."""
    if worst_difference(found, wanted)[0] == math.inf:
        return math.inf
    apart = sum(norm([x - y for x, y in zip(found[name], wanted[name])]) ** 2 for name in wanted)
    return math.sqrt(apart) / total_norm(wanted)


def total_norm(tensors):
    return math.sqrt(sum(norm(values) ** 2 for values in tensors.values()))

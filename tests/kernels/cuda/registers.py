#!/usr/bin/env python3
"""Compares registers and stack of every kernel of an archive (ptxas -v) with the table beside this file.

    registers.py ARCHIVE [--update] [--toolkit 13.0]

Reads the machine code of compute capability 9.0 in ARCHIVE. Ends with 1 if a kernel has a stack (spills need
one), is missing in the archive or the table, or has other registers than in the table. Registers are compared
only with the table's own toolkit. --update writes the table anew.
"""
import argparse
import os
import re
import struct
import subprocess
import sys

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "registers.csv")
CUDA_MACHINE = 190  # e_machine of device code
# Attributes of .nv.info that hold a symbol's number and a value.
REGISTERS, FRAME = 0x2F, 0x11


def cubins(data):
    """Offsets at which 64-bit ELF files of device code begin."""
    at = data.find(b"\x7fELF\x02\x01")
    while at >= 0:
        if struct.unpack_from("<H", data, at + 18)[0] == CUDA_MACHINE:
            yield at
        at = data.find(b"\x7fELF\x02\x01", at + 4)


def symbols_of(data, base):
    """{mangled symbol: {attribute: value}} of one cubin."""
    sections_at = struct.unpack_from("<Q", data, base + 40)[0]
    size, count, names = struct.unpack_from("<HHH", data, base + 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, base + sections_at + i * size) for i in range(count)]

    def text(at):
        return data[at:data.index(b"\0", at)].decode()

    table = next(section for section in sections if section[1] == 2)
    strings = base + sections[table[6]][4]
    found = {}
    for section in sections:
        if text(base + sections[names][4] + section[0]) != ".nv.info":
            continue
        at, end = base + section[4], base + section[4] + section[5]
        while at < end:
            form, attribute, length = struct.unpack_from("<BBH", data, at)
            at += 4
            if form != 4:
                continue
            if attribute in (REGISTERS, FRAME):
                number, value = struct.unpack_from("<II", data, at)
                name = text(strings + struct.unpack_from("<I", data, base + table[4] + 24 * number)[0])
                found.setdefault(name, {})[attribute] = value
            at += length
    return found


def readable(mangled):
    done = subprocess.run(["c++filt"], input="\n".join(mangled), capture_output=True, text=True, check=True)
    names = []
    for symbol, line in zip(mangled, done.stdout.splitlines()):
        file = re.search(r"_GLOBAL__N__[0-9a-f]+_\d+_(\w+?)_cu_[0-9a-f]", symbol)
        line = line.replace("> >", ">>")  # as newer versions write it
        name = re.sub(r"plumbline::cuda::|\(anonymous namespace\)::|^void ", "", line)
        depth, end = 0, len(name)
        for i, letter in enumerate(name):  # up to the arguments, which begin outside of <>
            depth += {"<": 1, ">": -1}.get(letter, 0)
            if letter == "(" and depth == 0:
                end = i
                break
        names.append(f"{file.group(1) if file else '-'}: {name[:end]}")
    return names


def kernels_of(data):
    """{file: kernel: (registers, bytes of stack)}."""
    found = {}
    for base in cubins(data):
        symbols = {name: of for name, of in symbols_of(data, base).items() if REGISTERS in of}
        for name, of in zip(readable(list(symbols)), symbols.values()):
            found[name] = (of[REGISTERS], of.get(FRAME, 0))
    return found


def read_table(path):
    """The toolkit, and {kernel: registers}."""
    with open(path, encoding="utf-8") as file:
        toolkit = file.readline().split()[-1]
        rows = [line.rstrip("\n").rsplit(";", 1) for line in file]
    return toolkit, {name: int(registers) for name, registers in rows}


def faults_of(kernels, table, same_toolkit):
    faults = [f"{name}: found {stack} bytes of stack, expected none; spills need one"
              for name, (_, stack) in sorted(kernels.items()) if stack > 0]
    faults += [f"{name}: not in the table; run with --update" for name in sorted(set(kernels) - set(table))]
    faults += [f"{name}: in the table only; run with --update" for name in sorted(set(table) - set(kernels))]
    if same_toolkit:
        faults += [f"{name}: found {kernels[name][0]} registers, expected {table[name]}; if that is meant, "
                   f"run with --update"
                   for name in sorted(set(table) & set(kernels)) if kernels[name][0] != table[name]]
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("archive")
    parser.add_argument("--toolkit", default="")
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    with open(options.archive, "rb") as file:
        kernels = kernels_of(file.read())
    if options.update:
        with open(TABLE, "w", encoding="utf-8") as file:
            file.write(f"# Registers per thread, compute capability 9.0, toolkit {options.toolkit}\n")
            file.writelines(f"{name};{registers}\n" for name, (registers, _) in sorted(kernels.items()))
        return
    toolkit, table = read_table(TABLE)
    faults = faults_of(kernels, table, toolkit == options.toolkit)
    print("\n".join(faults + [f"{len(kernels)} kernels, {len(faults)} faults"]))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()

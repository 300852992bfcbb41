#!/usr/bin/env python3
"""Libraries that built programs load, and their hardening: loader_test.py FOLDER...

Reads every program and shared library below the folders. No entry of RPATH or RUNPATH may be empty or
relative: the loader would take libraries from the current folder. With --hardened each must also be
position-independent and resolve its functions before it starts, with tables that are then read-only.
"""
import argparse
import os
import re
import stat
import subprocess
import sys


OTHERS = {"CMakeFiles", "consumer"}  # CMake's trials; a project of its own in tests/install


def is_elf(path):
    status = os.lstat(path)
    if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o111 == 0 and ".so" not in os.path.basename(path):
        return False
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def faults_of(path, hardened):
    """Lines about one file; an object file has none."""
    listing = subprocess.run(["readelf", "-W", "-h", "-l", "-d", path], capture_output=True, text=True,
                             check=True).stdout
    if re.search(r"Type:\s+REL ", listing):
        return []
    found = []
    for kind, entries in re.findall(r"\((RPATH|RUNPATH)\)\s+Library \w+: \[(.*)\]", listing):
        for entry in entries.split(":"):
            if not entry.startswith(("/", "$ORIGIN")):
                found.append(f'{kind}: found the entry "{entry}" of "{entries}", expected folders with /')
    for name in re.findall(r"\(NEEDED\)\s+Shared library: \[(.*)\]", listing):
        if "/" in name and not name.startswith("/"):
            found.append(f"NEEDED: found {name}, expected a name without a folder")
    if hardened:
        wanted = {"position-independent": r"Type:\s+DYN", "relocations that become read-only": "GNU_RELRO",
                  "functions resolved before the start": r"BIND_NOW|FLAGS_1.*\bNOW\b"}
        found += [f"{path}: expected {name}" for name, sign in wanted.items() if not re.search(sign, listing)]
    return [line if line.startswith(path) else f"{path}: {line}" for line in found]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("--hardened", action="store_true", help="check the hardening, too")
    options = parser.parse_args()
    files = [os.path.join(folder, name) for top in options.folders
             for folder, _, names in os.walk(top) if not OTHERS & set(folder.split(os.sep))
             for name in names]
    programs = [path for path in files if is_elf(path)]
    faults = [line for path in programs for line in faults_of(path, options.hardened)]
    print("\n".join(faults), end="\n" if faults else "")
    print(f"{len(programs)} programs and libraries read")
    if not programs:
        print("found no program, expected those of a build")
    return 1 if faults or not programs else 0


if __name__ == "__main__":
    sys.exit(main())

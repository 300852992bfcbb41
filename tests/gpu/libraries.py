"""Finds a host's large CUDA libraries, which no bundle brings: cuBLASLt, cuDNN, NCCL, CUPTI and NVRTC.

    python3 libraries.py FOLDER [--root /]    links the libraries into FOLDER, prints a line per library

slot.py starts programs with FOLDER in LD_LIBRARY_PATH. They also find the libraries that they load by name
there (cuDNN loads its own parts and NVRTC). Ends with 1 when a library that the programs are linked with is
missing.
"""
import argparse
import glob
import json
import os
import subprocess
import sys

# Library, the files that must lie next to each other, and true if programs do not start without it.
LIBRARIES = (
    ("libcublasLt.so.13", (), True),
    ("libnccl.so.2", (), True),
    ("libcupti.so.13", (), True),
    ("libcudnn.so.9", ("libcudnn*.so.9",), False),
    ("libnvrtc.so.13", ("libnvrtc-builtins.so.13*", "libnvrtc.so.13"), False),
)


def python_folders(root):
    """The folders nvidia/*/lib of every Python installation: first of those that run here, then of those on
    disk."""
    found = []
    script = ("import site, sys; "
              "print('\\n'.join(site.getsitepackages() + [site.getusersitepackages()] + sys.path))")
    if root == "/":
        for python in dict.fromkeys((sys.executable, "python3")):
            try:
                done = subprocess.run([python, "-c", script], capture_output=True, text=True, timeout=30,
                                      check=True)
            except (OSError, subprocess.SubprocessError):
                continue
            found += [line for line in done.stdout.splitlines() if line]
    for pattern in ("opt/*/lib/python3*/site-packages", "opt/*/.venv/lib/python3*/site-packages",
                    "usr/lib/python3*/*-packages", "usr/local/lib/python3*/*-packages",
                    "root/*/lib/python3*/site-packages", "home/*/*/lib/python3*/site-packages"):
        found += sorted(glob.glob(os.path.join(root, pattern)))
    return [folder for site in dict.fromkeys(found) for folder in sorted(glob.glob(site + "/nvidia/*/lib"))]


def folders(root="/", named=""):
    """(folder, what kind of place it is), in the order they are searched in."""
    places = [(folder, "named by PLUMBLINE_CUDA_LIBRARIES") for folder in named.split(":") if folder]
    for pattern in ("usr/local/cuda", "usr/local/cuda-13*"):
        for base in sorted(glob.glob(os.path.join(root, pattern)), reverse=True):
            for below in ("lib64", "lib", "targets/x86_64-linux/lib", "extras/CUPTI/lib64"):
                places.append((os.path.join(base, below), "toolkit"))
    places += [(folder, "Python package") for folder in python_folders(root)]
    for below in ("usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/lib"):
        places.append((os.path.join(root, below), "system"))
    return [(folder, kind) for folder, kind in places if os.path.isdir(folder)]


def find(root="/", named=""):
    """One dict per library: name, path or None, kind of place, whether it is needed."""
    searched = folders(root, named)
    rows = []
    for name, _, needed in LIBRARIES:
        place = next(((f, kind) for f, kind in searched if os.path.exists(os.path.join(f, name))), None)
        rows.append({"library": name, "found": os.path.join(place[0], name) if place else None,
                     "place": place[1] if place else None, "needed": needed})
    return rows


def link(rows, folder):
    """Links the libraries that were found, and what lies next to them, into `folder`."""
    os.makedirs(folder, exist_ok=True)
    for row, (name, together, _) in zip(rows, LIBRARIES):
        if row["found"] is None:
            continue
        beside = os.path.dirname(row["found"])
        files = [row["found"]] + [path for pattern in together
                                  for path in glob.glob(os.path.join(beside, pattern))]
        for path in dict.fromkeys(files):
            target = os.path.join(folder, name if path == row["found"] else os.path.basename(path))
            if os.path.lexists(target):
                os.remove(target)
            os.symlink(os.path.abspath(path), target)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--root", default="/")
    options = parser.parse_args()
    rows = find(options.root, os.environ.get("PLUMBLINE_CUDA_LIBRARIES", ""))
    link(rows, options.folder)
    for row in rows:
        print(json.dumps(row), flush=True)
    missing = [row["library"] for row in rows if row["needed"] and row["found"] is None]
    if missing:
        sys.exit(f"found no {', '.join(missing)}; name their folders in PLUMBLINE_CUDA_LIBRARIES")


if __name__ == "__main__":
    main()

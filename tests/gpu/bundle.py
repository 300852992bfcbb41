"""The archive that a GPU machine is sent: how large it may be, and unpacking it with nothing but Python.

    python3 bundle.py room                      bytes that are left for it
    python3 bundle.py unpack ARCHIVE FOLDER
"""
import os
import subprocess
import sys
import tarfile

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))

SENT = 64 * 2**20  # the working tree and everything carried with it


def tree_bytes(root):
    """Names of tracked files, and of untracked ones that git does not ignore."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others",
                             "--exclude-standard"], check=True,
                            capture_output=True).stdout
    paths = {os.path.join(os.fsencode(root), name) for name in listed.split(b"\0") if name}
    return sum(os.lstat(path).st_size for path in paths if os.path.lexists(path))


def room(root):
    return SENT - tree_bytes(root)


def unpack(archive, folder):
    """xz and tar may be missing there."""
    with tarfile.open(archive) as packed:
        # Our own archive; older Pythons know no filters.
        packed.extractall(folder, **({"filter": "fully_trusted"} if hasattr(tarfile, "data_filter") else {}))


def main():
    if sys.argv[1:] == ["room"]:
        print(room(os.getcwd()))
    elif len(sys.argv) == 4 and sys.argv[1] == "unpack":
        unpack(*sys.argv[2:])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()

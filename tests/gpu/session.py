"""A slot that outlives the call that starts it: calls only wait, and fetch the results there are by then.

    session.py start OUT COMMAND [ARGUMENT ...]   runs the command in a session of its own, its output in
                                                  OUT/session.log
    session.py wait OUT SECONDS [FOLDER]          prints new output until the command ends or the time has
                                                  passed; packs OUT into FOLDER/results.tar.gz, large
                                                  ones in pieces

`wait` ends with the command's code, or with 3 while it runs.
"""
import glob
import io
import os
import subprocess
import sys
import tarfile
import time

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    sys.exit(print(__doc__))

RUNNING = 3
PIECE = 15 * 2**20  # bytes of a file that a call brings back
MOST_PIECES = 4


def start(out, command):
    os.makedirs(out, exist_ok=True)
    if runs(out):
        sys.exit(f"{out}: found a slot that runs, expected none; wait for it")
    for name in ("session.end", "session.pid"):
        if os.path.exists(f"{out}/{name}"):
            os.remove(f"{out}/{name}")
    with open(f"{out}/session.log", "ab") as log:
        process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "run", out, *command],
                                   stdin=subprocess.DEVNULL,
                                   stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    with open(f"{out}/session.pid", "w", encoding="utf-8") as file:
        file.write(str(process.pid))


def run(out, command):
    try:
        code = subprocess.run(command, check=False).returncode
    except OSError as error:
        print(error)
        code = 127
    with open(f"{out}/session.end.new", "w", encoding="utf-8") as file:
        file.write(str(code))
    os.rename(f"{out}/session.end.new", f"{out}/session.end")


def ended(out):
    """The command's code; None while there is none."""
    try:
        with open(f"{out}/session.end", encoding="utf-8") as file:
            return int(file.read())
    except FileNotFoundError:
        return None


def runs(out):
    try:
        with open(f"{out}/session.pid", encoding="utf-8") as file:
            pid = int(file.read())
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return ended(out) is None and b"session.py" in file.read()
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait(out, seconds, folder=""):
    end = time.monotonic() + seconds
    with open(f"{out}/session.log", encoding="utf-8", errors="replace") as log:
        while True:
            alive = runs(out)
            sys.stdout.write(log.read())
            sys.stdout.flush()
            if not alive or time.monotonic() >= end:
                break
            time.sleep(min(1.0, max(0.0, end - time.monotonic())))
    if folder:
        fetch(out, folder)
    code = ended(out)
    if code is None and runs(out):
        print("still running")
        return RUNNING
    return 1 if code is None else code


def fetch(out, folder):
    """The files of OUT, smallest first; one that there is no room for is named."""
    packed = io.BytesIO()
    taken = 0
    paths = sorted(filter(os.path.isfile, glob.glob(f"{out}/*")), key=os.path.getsize)
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for path in paths:
            taken += os.path.getsize(path)
            if taken > PIECE * MOST_PIECES:
                print(f"{path}: {os.path.getsize(path)} bytes are left there")
                continue
            archive.add(path, os.path.join("results", os.path.basename(path)))
    data = packed.getvalue()
    os.makedirs(folder, exist_ok=True)
    pieces = [data[at:at + PIECE] for at in range(0, len(data), PIECE)]
    for number, piece in enumerate(pieces):
        name = "results.tar.gz" if len(pieces) == 1 else f"results.tar.gz.{number}"
        with open(f"{folder}/{name}", "wb") as file:
            file.write(piece)


def main():
    if len(sys.argv) >= 4 and sys.argv[1] in ("start", "run"):
        {"start": start, "run": run}[sys.argv[1]](sys.argv[2], sys.argv[3:])
    elif len(sys.argv) in (4, 5) and sys.argv[1] == "wait":
        sys.exit(wait(sys.argv[2], float(sys.argv[3]), *sys.argv[4:]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()

"""Start of the program `plumbline`, which measures."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

from ._ask import Config, InputError, Value, error_of
from ._records import load_records

if TYPE_CHECKING:
    import pandas

Path = Union[str, "os.PathLike[str]"]


def program() -> str:
    """Path of the program: $PLUMBLINE_PROGRAM, else `plumbline` of PATH. Raises InputError without one."""
    path = os.environ.get("PLUMBLINE_PROGRAM") or shutil.which("plumbline")
    if not path:
        raise InputError(
            "plumbline: found no program in PATH; build it with bench/run.sh, or set PLUMBLINE_PROGRAM", 2
        )
    return path


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value) if isinstance(value, Mapping) else str(value)


def _start(words: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run([program(), *words], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3, 4, 5):
        raise _error(done)
    return done


def _error(done: "subprocess.CompletedProcess[str]") -> Exception:
    lines = [line for line in done.stderr.splitlines() if line.startswith("plumbline: ")]
    line = lines[-1].removeprefix("plumbline: ") if lines else done.stderr.strip()[-500:]
    return error_of(line, done.returncode)


def run(config: Config = None, /, **keys: Value) -> dict[str, Any]:
    """Predict and measure one configuration with `plumbline run`; its record as a dict.

    Raises InputError, DoesNotFit or PlumblineError with the program's line.
    """
    words = ["--quiet", "run", "--json"]
    if isinstance(config, Mapping):
        keys = {**config, **keys}
    elif config is not None:
        words.append(os.fspath(config))
    for key, value in keys.items():
        words += ["--set", f"{key}={_text(value)}"]
    done = _start(words)
    if not done.stdout.strip():
        raise _error(done)
    record: dict[str, Any] = json.loads(done.stdout)
    return record


def matrix(file: Path, out: Path, *options: str) -> pandas.DataFrame:
    """Run `plumbline matrix` on a matrix file into the folder `out`; its records as of load_records().

    options: further options of the command, for example "--predict-only". Cells that failed are rows. Raises
    InputError for a bad file.
    """
    _start(["--quiet", "matrix", os.fspath(file), "--out", os.fspath(out), *options])
    return load_records(out)


def bench(what: str, *words: str) -> pandas.DataFrame:
    """Measure collectives or operators with `plumbline bench`; a row per size or shape, columns by its JSON.

    what: "collective" or "operator". words: kinds and options of the command, for example "all-reduce",
    "--ranks", "4". Nested keys are joined by a dot (batched.seconds). Raises InputError, or PlumblineError
    with the program's line, also for wrong elements.
    """
    import pandas

    return pandas.json_normalize(json.loads(_start(["--quiet", "bench", what, *words, "--json"]).stdout))

"""Files that the program writes, as pandas DataFrames."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Union

from ._ask import InputError, ask

if TYPE_CHECKING:
    import pandas

Path = Union[str, "os.PathLike[str]"]


def load_records(folder: Path) -> pandas.DataFrame:
    """Records of a folder that `plumbline matrix` wrote, of a .jsonl file, or of `run --json`.

    One row per cell. Columns are the record's keys, joined by dots: config.seq_length,
    prediction.time.step_s, measurement.memory.peak_bytes, error.step_time. Raises InputError.
    """
    import pandas

    return pandas.json_normalize(ask({"ask": "records", "folder": os.fspath(folder)})["records"])


def load_trace(file: Path) -> pandas.DataFrame:
    """Events of a trace in Chrome's JSON format (`plumbline predict --trace FILE.json`).

    Columns: process, thread, name, start_us, duration_us, and the event's arguments. Raises InputError.
    """
    import pandas

    try:
        with open(file, encoding="utf-8") as opened:
            trace = json.load(opened)
        events: list[dict[str, Any]] = trace["traceEvents"] if isinstance(trace, dict) else trace
        names: dict[tuple[str, Any, Any], str] = {}
        for event in events:
            if event["ph"] == "M" and event["name"] in ("process_name", "thread_name"):
                thread = event.get("tid") if event["name"] == "thread_name" else None
                names[(event["name"], event["pid"], thread)] = event["args"]["name"]
        rows = [
            {
                "process": names.get(("process_name", each["pid"], None), each["pid"]),
                "thread": names.get(("thread_name", each["pid"], each.get("tid")), each.get("tid")),
                "name": each["name"],
                "start_us": each["ts"],
                "duration_us": each["dur"],
                **each.get("args", {}),
            }
            for each in events
            if each["ph"] == "X"
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{os.fspath(file)}: expected a trace in Chrome's JSON format: {error!r}", 2
        ) from None
    return pandas.DataFrame(rows)

"""Predictions of several configurations, as pandas DataFrames."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional

from ._ask import Config, InputError, Value, ask, request_of
from ._progress import Progress, shown

if TYPE_CHECKING:
    import pandas

_FIGURES = ("step_s", "peak_bytes", "tokens_per_s", "fits", "verdict", "chance")


def _figures(reply: Mapping[str, Any]) -> dict[str, Any]:
    """_FIGURES of a reply with a prediction."""
    prediction = reply["prediction"]
    values = (
        prediction["time"]["step_s"],
        prediction["memory"]["peak_bytes"],
        prediction["throughput"]["tokens_per_s"],
        prediction["fits"],
        prediction["verdict"],
        prediction.get("chance"),
    )
    return dict(zip(_FIGURES, values))


def predict_many(
    configs: Iterable[Config],
    /,
    *,
    sequence_lengths: Optional[Iterable[int]] = None,
    progress: Progress = False,
    **keys: Value,
) -> pandas.DataFrame:
    """Predict several configurations, each a mapping, a preset or a file; one row each, in their order.

    keys: configuration keys of all. Columns: the keys of mappings, `config` (a preset or file), step_s,
    peak_bytes, tokens_per_s, fits, verdict, chance, and error, the line for a configuration that is refused.
    progress: as of search(). Raises InputError for a configuration in place of a list of them.
    """
    import pandas

    if isinstance(configs, (str, os.PathLike, Mapping)):
        raise InputError("configs: found one configuration, expected a list of them; use predict()", 2)
    every = list(configs)
    lengths = None if sequence_lengths is None else list(sequence_lengths)  # read more than once
    rows: list[dict[str, Any]] = []
    names: dict[str, None] = {}
    with shown(progress, "predict_many") as tell:
        for done, config in enumerate(every, 1):
            row: dict[str, Any] = {}
            if isinstance(config, Mapping):
                row.update(config)
            else:
                row["config"] = None if config is None else os.fspath(config)
            names.update(dict.fromkeys(row))
            try:
                row.update(_figures(ask(request_of("predict", config, keys, lengths))))
            except InputError as error:
                row["error"] = str(error)
            rows.append(row)
            if tell:
                tell(done, len(every))
    return pandas.DataFrame(rows, columns=[*names, *_FIGURES, "error"])


def compare(
    changes: Sequence[Mapping[str, Value]],
    config: Config = None,
    /,
    *,
    sequence_lengths: Optional[Iterable[int]] = None,
    progress: Progress = False,
    **keys: Value,
) -> pandas.DataFrame:
    """Predict a configuration with each of several changes; one row per change.

    Columns: the changed keys, step_s, peak_bytes, tokens_per_s, fits, verdict, chance, step_time and
    peak_memory (changed / base - 1), error. The first row is the base. sequence_lengths: as of predict().
    progress: as of search().
    """
    import pandas

    request = request_of("compare", config, keys, sequence_lengths)
    request["changes"] = [dict(change) for change in changes]
    with shown(progress, "compare") as tell:
        reply = ask(request, tell)

    def row(keys: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
        line: dict[str, Any] = dict(keys)
        if "prediction" in answer:
            line.update(_figures(answer))
            line.update(step_time=answer.get("step_time", 0.0), peak_memory=answer.get("peak_memory", 0.0))
        line["error"] = answer.get("error")
        return line

    return pandas.DataFrame([row({}, reply["base"]), *(row(each["keys"], each) for each in reply["changes"])])


def sweep(
    vary: Mapping[str, Sequence[Value]],
    config: Config = None,
    /,
    *,
    sequence_lengths: Optional[Iterable[int]] = None,
    progress: Progress = False,
    **keys: Value,
) -> pandas.DataFrame:
    """Predict every combination of values, for example sweep({"seq_length": [4096, 8192]}, run).

    Columns and arguments are those of compare(); the first row is the base.
    """
    changes = [dict(zip(vary, values)) for values in itertools.product(*vary.values())]
    return compare(changes, config, sequence_lengths=sequence_lengths, progress=progress, **keys)

"""Results with many rows, as pandas DataFrames."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Optional

from ._ask import Config, Value, ask, request_of
from ._progress import Progress, shown

if TYPE_CHECKING:
    import pandas


def search(
    config: Config = None,
    /,
    *,
    top: int = 10,
    threads: int = 0,
    max_cp: Optional[int] = None,
    max_ep: int = 0,
    deadline_s: Optional[float] = None,
    front: bool = False,
    progress: Progress = False,
    **keys: Value,
) -> pandas.DataFrame:
    """Find the fastest configurations of a model on `gpus` accelerators that fit; one row each, best first.

    front: the Pareto front of step time and memory instead. Columns: the searched keys, then figures in
    seconds and bytes, as in `plumbline search --json`; `attrs` has the other figures. deadline_s: ends with
    what was found after so many seconds, `attrs["complete"]` is then False. progress: True for a line on
    standard error or in the notebook, or a callback, progress(done, all), all 0 if unknown. Raises DoesNotFit
    if nothing fits, InputError for a bad configuration, PlumblineError if the deadline came first.
    """
    import pandas

    request = request_of("search", config, keys)
    request.update(top=top, threads=threads, max_ep=max_ep)
    if max_cp is not None:
        request["max_cp"] = max_cp
    if deadline_s is not None:
        request["deadline_s"] = deadline_s
    with shown(progress, "search") as tell:
        reply = ask(request, tell)
    rows: list[dict[str, Any]] = []
    for candidate in reply["front" if front else "best"]:
        figures = dict(candidate)
        rows.append({**figures.pop("config"), **figures})
    table = pandas.DataFrame(rows)
    table.attrs.update(
        {key: value for key, value in reply.items() if key not in ("best", "front", "schema", "id")}
    )
    return table


def size(
    config: Config = None,
    /,
    *,
    tokens: str,
    days: Optional[float] = None,
    price: Optional[str] = None,
    fleet: Optional[str] = None,
    fixed: bool = False,
    threads: int = 0,
    deadline_s: Optional[float] = None,
    progress: Progress = False,
    **keys: Value,
) -> pandas.DataFrame:
    """Find the fewest accelerators that train a model on `tokens` ("2T") in `days`, or the days on `gpus`.

    One row for each accelerator ("h100,b200" in `hardware`) and number of GPUs on its frontier, as in
    `plumbline size --json`; `attrs` has the other figures, `attrs["fewest"]` the answer. price: of a
    GPU-hour, "h100=2.5/h". gbs: sequences of a step, or a range, "512:2048". fixed: no search. progress: as
    of search(), told the numbers of GPUs that were tried. Raises as `search`.
    """
    import pandas

    request = request_of("size", config, keys)
    request.update(tokens=tokens, threads=threads, fixed=fixed)
    optional = {"days": days, "price": price, "fleet": fleet, "deadline_s": deadline_s}
    request.update({key: value for key, value in optional.items() if value is not None})
    with shown(progress, "GPU counts tried") as tell:
        reply = ask(request, tell)
    table = pandas.DataFrame([row for each in reply["hardware"] for row in each["frontier"]])
    table.attrs.update({key: value for key, value in reply.items() if key not in ("schema", "id")})
    return table


@functools.lru_cache(maxsize=1)
def _short_names() -> dict[str, str]:
    """Configuration keys that have a short name, with it."""
    return {key["name"]: key["short"] for key in ask({"ask": "keys"})["keys"] if key["short"]}


def short_columns(table: pandas.DataFrame) -> pandas.DataFrame:
    """A copy of a table whose columns have the short names of configuration keys: tp, pp, dp, mbs, gbs.

    Also for load_records() and matrix(): config.tensor_model_parallel_size becomes tp. Keys without a short
    name, and other columns, stay.
    """
    names = _short_names()
    return table.rename(columns={**names, **{"config." + name: short for name, short in names.items()}})


def validate(*, rows: bool = False, progress: Progress = False) -> pandas.DataFrame:
    """Compare predictions with published measurements; one row per table, or with rows=True per figure.

    Errors are shares: predicted / published - 1. It takes one or two seconds. progress: as of search().
    """
    import pandas

    with shown(progress, "validate") as tell:
        tables = ask({"ask": "validate"}, tell)["tables"]
    if not rows:
        return pandas.DataFrame(
            [
                {key: value for key, value in table.items() if not isinstance(value, (list, dict))}
                for table in tables
            ]
        )
    return pandas.DataFrame(
        [{"table": table["name"], **row} for table in tables for row in table["comparisons"]]
    )

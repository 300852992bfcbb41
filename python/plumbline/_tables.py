"""Results with many rows, as pandas DataFrames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from ._ask import Config, Value, ask, request_of

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
    **keys: Value,
) -> pandas.DataFrame:
    """Find the fastest configurations of a model on `gpus` accelerators that fit; one row each, best first.

    front: the Pareto front of step time and memory instead. Columns: the searched keys, then figures in
    seconds and bytes, as in `plumbline search --json`; `attrs` has the other figures. deadline_s: ends with
    what was found after so many seconds, `attrs["complete"]` is then False. Raises DoesNotFit if nothing
    fits, InputError for a bad configuration, PlumblineError if the deadline came first.
    """
    import pandas

    request = request_of("search", config, keys)
    request.update(top=top, threads=threads, max_ep=max_ep)
    if max_cp is not None:
        request["max_cp"] = max_cp
    if deadline_s is not None:
        request["deadline_s"] = deadline_s
    reply = ask(request)
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
    **keys: Value,
) -> pandas.DataFrame:
    """Find the fewest accelerators that train a model on `tokens` ("2T") in `days`, or the days on `gpus`.

    One row for each accelerator ("h100,b200" in `hardware`) and number of GPUs on its frontier, as in
    `plumbline size --json`; `attrs` has the other figures, `attrs["fewest"]` the answer. price: of a
    GPU-hour, "h100=2.5/h". gbs: sequences of a step, or a range, "512:2048". fixed: no search. Raises as
    `search`.
    """
    import pandas

    request = request_of("size", config, keys)
    request.update(tokens=tokens, threads=threads, fixed=fixed)
    optional = {"days": days, "price": price, "fleet": fleet, "deadline_s": deadline_s}
    request.update({key: value for key, value in optional.items() if value is not None})
    reply = ask(request)
    table = pandas.DataFrame([row for each in reply["hardware"] for row in each["frontier"]])
    table.attrs.update({key: value for key, value in reply.items() if key not in ("schema", "id")})
    return table


def validate(*, rows: bool = False) -> pandas.DataFrame:
    """Compare predictions with published measurements; one row per table, or with rows=True per figure.

    Errors are shares: predicted / published - 1. It takes one or two seconds.
    """
    import pandas

    tables = ask({"ask": "validate"})["tables"]
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

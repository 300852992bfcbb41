"""Predict memory and time of parallel training of language models.

The functions give what the program `plumbline` gives, from the same code. Units are bytes, seconds and plain
numbers unless a name says otherwise. Configuration keys are those of `plumbline help configuration`, by their
names or short names (tp, pp, gbs, gpus). Errors are one line: KEY: found X, expected Y.
"""

from ._ask import DoesNotFit, InputError, PlumblineError, ask
from ._many import compare, predict_many, sweep
from ._native import __version__
from ._prediction import Legality, Prediction, legality, predict
from ._program import bench, matrix, program, run
from ._records import load_records, load_trace
from ._schedules import Schedule, Simulation, schedule, simulate
from ._tables import search, short_columns, size, validate

__all__ = [
    "DoesNotFit",
    "InputError",
    "Legality",
    "PlumblineError",
    "Prediction",
    "Schedule",
    "Simulation",
    "__version__",
    "ask",
    "bench",
    "compare",
    "legality",
    "load_records",
    "load_trace",
    "matrix",
    "predict",
    "predict_many",
    "program",
    "run",
    "schedule",
    "search",
    "short_columns",
    "simulate",
    "size",
    "sweep",
    "validate",
]

"""Functions that the converters share."""

import re

from .checks import size_of
from .facts import HYBRIDS, find_model


class Unplaced(Exception):
    """A row that cannot be a row of the dialect, and why."""


def put(cells, column, value):
    """Sets a column unless the source leaves it out."""
    text = str(value).strip() if value is not None else ""
    if text not in ("", "n/a", "nan", "None"):
        cells[column] = text


def is_mixture(cells):
    return bool(cells.get("num_experts")) or cells.get("model") in HYBRIDS.values()


def model_of(name):
    found = find_model(name)
    if found is None:
        raise Unplaced(f'the model "{name}" is not known')
    return {column: str(value) for column, value in found[1].items()}


def year_of(text, pattern):
    found = re.search(pattern, text)
    if found is None:
        raise Unplaced(f'no year in "{text}"')
    digits = next(group for group in found.groups() if group)
    return int(digits) if len(digits) == 4 else 2000 + int(digits)


def add_interleaving(cells, vp):
    """Virtual stages per rank. If they divide not the layers but two more, Megatron counts the embedding and
    the output layer as a layer each."""
    pipeline = int(cells.get("pipeline_model_parallel_size") or 1)
    chunks = int(vp) if str(vp) not in ("", "n/a") else 1
    if pipeline == 1:
        return
    if chunks > 1:
        cells["virtual_pipeline_chunks"] = str(chunks)
    layers = size_of(cells, "num_hidden_layers")
    if layers and layers % (pipeline * chunks) and (layers + 2) % (pipeline * chunks) == 0:
        cells.update(account_for_embedding_in_pipeline_split="true",
                     account_for_loss_in_pipeline_split="true")


REQUIRED = ["hardware", "software", "seq_length", "micro_batch_size", "world_size", "global_batch_size"]


def require(cells):
    """The first fact without which no configuration is complete, or None."""
    for column in REQUIRED:
        if column == "global_batch_size" and cells.get("num_microbatches"):
            continue
        if not cells.get(column):
            return column
    return None if cells.get("model") or cells.get("model_type") else "the model"

"""Pipeline schedules and their simulation."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Optional, Union

from ._ask import InputError, ask

Costs = Union[Mapping[str, Any], str, "os.PathLike[str]"]


class Schedule:
    """Actions of every rank of one step. A notebook shows its timeline with F, I and W of equal length."""

    def __init__(self, reply: Mapping[str, Any]) -> None:
        self._reply = dict(reply)

    @property
    def name(self) -> str:
        return str(self._reply["schedule"]["name"])

    @property
    def ranks(self) -> int:
        """Pipeline ranks."""
        return int(self._reply["schedule"]["ranks"])

    @property
    def actions(self) -> list[list[str]]:
        """Actions of each rank in order, such as 3F7: stage 3, forward, micro-batch 7."""
        return [list(rank) for rank in self._reply["schedule"]["actions"]]

    @property
    def bubble_fraction(self) -> float:
        """Idle time as a share of idle and compute, with F, I and W of equal length."""
        return float(self._reply["simulation"]["bubble_fraction"])

    @property
    def peak_in_flight(self) -> float:
        """Most micro-batches whose activations a rank holds."""
        return float(self._reply["simulation"]["peak_in_flight"])

    @property
    def svg(self) -> str:
        """The timeline as a picture."""
        return str(self._reply["svg"])

    def to_dict(self) -> dict[str, Any]:
        """The schedule as `plumbline schedule --format json` has it."""
        return dict(self._reply["schedule"])

    def __repr__(self) -> str:
        return f"Schedule({self.name!r}, ranks={self.ranks}, bubble_fraction={self.bubble_fraction:.4f})"

    def _repr_svg_(self) -> str:
        return self.svg


class Simulation:
    """Time of a schedule under given costs; figures as in `plumbline simulate --json`, in microseconds."""

    def __init__(self, reply: Mapping[str, Any]) -> None:
        self._reply = dict(reply)

    @property
    def makespan_us(self) -> float:
        """Length of the step in microseconds."""
        return float(self._reply["simulation"]["makespan_us"])

    @property
    def bubble_fraction(self) -> float:
        """Idle time as a share of idle and compute."""
        return float(self._reply["simulation"]["bubble_fraction"])

    @property
    def critical_path(self) -> dict[str, Any]:
        """The longest chain: its transfers and shares by action."""
        return dict(self._reply["simulation"]["critical_path"])

    @property
    def svg(self) -> str:
        """The timeline as a picture."""
        return str(self._reply["svg"])

    def to_dict(self) -> dict[str, Any]:
        """All figures."""
        return dict(self._reply["simulation"])

    def __repr__(self) -> str:
        return f"Simulation(makespan_us={self.makespan_us:.6g}, bubble_fraction={self.bubble_fraction:.4f})"

    def _repr_svg_(self) -> str:
        return self.svg


def _request(
    kind: str,
    name: str,
    pp: int,
    m: Optional[int],
    microbatches: Optional[int],
    chunks: int,
    group: int,
    memory_limit: Optional[float],
    transfers: bool,
) -> dict[str, Any]:
    if m is not None and microbatches is not None:
        raise InputError(
            f"microbatches: found {microbatches} with m={m}, expected one of them; leave one out", 2
        )
    count = microbatches if m is None else m
    request: dict[str, Any] = {"ask": kind, "name": name, "pp": pp}
    request["microbatches"] = 1 if count is None else count
    if chunks:
        request["chunks"] = chunks
    if group:
        request["group"] = group
    if memory_limit is not None:
        request["memory_limit"] = memory_limit
    if transfers:
        request["transfers"] = True
    return request


def schedule(
    name: str,
    pp: int = 1,
    m: Optional[int] = None,
    *,
    microbatches: Optional[int] = None,
    chunks: int = 0,
    group: int = 0,
    memory_limit: Optional[float] = None,
    transfers: bool = False,
) -> Schedule:
    """A schedule by name (`plumbline schedule --list`) or from a .csv or .json file.

    pp: pipeline ranks. m or microbatches: micro-batches per step. chunks, group: of interleaved.
    memory_limit: activations per rank, of zb-auto. Raises InputError, with the nearest name for an unknown
    one.
    """
    request = _request("schedule", name, pp, m, microbatches, chunks, group, memory_limit, transfers)
    return Schedule(ask(request))


def simulate(
    name: str,
    pp: int = 1,
    m: Optional[int] = None,
    *,
    costs: Costs,
    microbatches: Optional[int] = None,
    chunks: int = 0,
    group: int = 0,
    memory_limit: Optional[float] = None,
    transfers: bool = False,
) -> Simulation:
    """Time of a schedule whose actions take the given times.

    costs: a mapping such as {"stages": [{"forward_us": 100, "backward_us": 200}], "p2p_us": 5}, or the path
    of a file with one (`plumbline help simulate`). The other arguments are those of schedule().
    """
    request = _request("simulate", name, pp, m, microbatches, chunks, group, memory_limit, transfers)
    if isinstance(costs, Mapping):
        request["costs"] = dict(costs)
    else:
        with open(costs, encoding="utf-8") as file:
            request["costs"] = json.load(file)
    return Simulation(ask(request))

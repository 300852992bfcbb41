"""Prediction of one configuration."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from ._ask import Config, InputError, Value, ask, request_of

if TYPE_CHECKING:
    import pandas

_GIB = 2.0**30


def _known(figure: Optional[float]) -> float:
    """A figure of the reply; NaN for one that the task does not have."""
    return float("nan") if figure is None else float(figure)


class Prediction:
    """Memory and time of one step; attributes have the names of the record's `prediction`.

    Tasks grpo and ppo: time and throughput are those of the whole step, and parts that only a step of
    training has are NaN; `phases` has the rest.

    The first access to ranks, traffic, device memory, lanes, trust or the whole configuration predicts again
    with these parts.
    """

    def __init__(self, request: Mapping[str, Any], reply: Mapping[str, Any]) -> None:
        self._request = dict(request)
        self._reply = dict(reply)
        self._whole: Optional[dict[str, Any]] = None

    def _full(self) -> dict[str, Any]:
        if self._whole is None:
            self._whole = ask({**self._request, "full": True})
        return self._whole

    @property
    def fits(self) -> bool:
        """True if the rank that needs most fits its memory."""
        return bool(self._reply["prediction"]["fits"])

    @property
    def verdict(self) -> str:
        """fits, tight, does not fit or unknown."""
        return str(self._reply["prediction"]["verdict"])

    @property
    def chance(self) -> Optional[float]:
        """Share of comparable published runs beyond the limit; None: unknown, or memory is exact."""
        chance: Optional[float] = self._reply["prediction"].get("chance")
        return chance

    def to_series(self) -> pandas.Series[Any]:
        """The main figures as a pandas Series."""
        import pandas

        names = ("verdict", "chance", "step_s", "tokens_per_s", "mfu", "peak_bytes", "needed_bytes")
        return pandas.Series({name: getattr(self, name) for name in names})

    @property
    def memory(self) -> dict[str, Any]:
        """Tensors in bytes: `peak_bytes`, `peak_rank`, and `ranks`, a row per rank by category."""
        memory: dict[str, Any] = self._full()["prediction"]["memory"]
        return memory

    @property
    def peak_bytes(self) -> int:
        """Most tensor bytes of any rank."""
        return int(self._reply["prediction"]["memory"]["peak_bytes"])

    @property
    def peak_rank(self) -> int:
        """World rank with the largest peak."""
        return int(self._reply["prediction"]["memory"]["peak_rank"])

    @property
    def needed_bytes(self) -> int:
        """Bytes compared with `limit_bytes`: device memory and allocator margin, or tensors."""
        return int(self._reply["fit"]["needed_bytes"])

    @property
    def limit_bytes(self) -> int:
        """Memory budget or device memory in bytes; 0: no bound."""
        return int(self._reply["fit"]["limit_bytes"])

    @property
    def time(self) -> dict[str, Any]:
        """Times of the step in seconds and bubble fractions, the record's `time`."""
        time: dict[str, Any] = self._reply["prediction"]["time"]
        return time

    @property
    def step_s(self) -> float:
        """Step time in seconds."""
        return float(self.time["step_s"])

    @property
    def compute_s(self) -> float:
        """Forward and backward without communication, mean over pipeline ranks, seconds."""
        return _known(self.time["compute_s"])

    @property
    def bubble_fraction(self) -> float:
        """Idle time of the pipeline as a share of idle and compute."""
        return _known(self.time["bubble_fraction"])

    @property
    def throughput(self) -> dict[str, Any]:
        """The record's `throughput`."""
        throughput: dict[str, Any] = self._reply["prediction"]["throughput"]
        return throughput

    @property
    def tokens_per_s(self) -> float:
        """Tokens per second of all ranks."""
        return float(self.throughput["tokens_per_s"])

    @property
    def tokens_per_s_per_gpu(self) -> float:
        """Tokens per second and rank."""
        return float(self.throughput["tokens_per_s_per_gpu"])

    @property
    def model_tflops_per_gpu(self) -> float:
        """Model FLOPs per rank and second, in 10^12."""
        return _known(self.throughput["model_tflops_per_gpu"])

    @property
    def mfu(self) -> float:
        """Model FLOPs utilization, 0 to 1."""
        return _known(self.throughput["mfu"])

    @property
    def traffic(self) -> dict[str, Any]:
        """Messages and collectives of one step, bytes; of each figure the largest of any rank."""
        traffic: dict[str, Any] = self._full()["prediction"]["traffic"]
        return traffic

    @property
    def device_memory(self) -> Optional[dict[str, Any]]:
        """Device memory of every rank in bytes; None where the hardware profile knows none."""
        device: Optional[dict[str, Any]] = self._full()["prediction"].get("device_memory")
        return device

    @property
    def lanes(self) -> Optional[dict[str, Any]]:
        """Busy and exposed seconds of each lane; None where ranks share processors."""
        lanes: Optional[dict[str, Any]] = self._full()["prediction"].get("lanes")
        return lanes

    @property
    def config(self) -> dict[str, Any]:
        """Every configuration key with its value."""
        config: dict[str, Any] = self._full()["config"]
        return config

    @property
    def trust(self) -> dict[str, Any]:
        """Error of published runs with the same software, and the interval it gives here."""
        trust: dict[str, Any] = self._full()["trust"]
        return trust

    @property
    def phases(self) -> pandas.DataFrame:
        """Tasks grpo and ppo: start_s, time_s, needed_bytes and on_rollout_ranks of each phase, by name."""
        import pandas

        step = self._reply.get("reinforcement")
        if step is None:
            raise InputError("phases: found a step of training, expected task grpo or ppo; set task", 2)
        columns = ["name", "start_s", "time_s", "needed_bytes", "on_rollout_ranks"]
        return pandas.DataFrame(step["phases"], columns=columns).set_index("name")

    @property
    def notes(self) -> list[str]:
        """Remarks, such as values that were assumed."""
        return list(self._reply["notes"])

    def to_dict(self) -> dict[str, Any]:
        """The record's `config`, `model` and `prediction`, with `trust`, `fit` and `notes`."""
        return {key: value for key, value in self._full().items() if key not in ("schema", "id")}

    def __repr__(self) -> str:
        return (
            f"Prediction(step_s={self.step_s:.4g}, tokens_per_s={self.tokens_per_s:.5g}, "
            f"peak_gib={self.peak_bytes / _GIB:.2f}, fits={self.fits})"
        )

    def _repr_html_(self) -> str:
        rows = [
            ("step time, s", f"{self.step_s:.4g}"),
            ("tokens/s", f"{self.tokens_per_s:.5g}"),
            ("peak memory, GiB", f"{self.peak_bytes / _GIB:.2f}"),
            ("needed, GiB", f"{self.needed_bytes / _GIB:.2f}"),
            ("memory", self.verdict + ("" if self.fits else f", limit {self.limit_bytes / _GIB:.2f} GiB")),
        ]
        if not math.isnan(self.mfu):  # of a step of training
            rows += [
                ("MFU", f"{100 * self.mfu:.1f} %"),
                ("bubble fraction, idle/step", f"{self.bubble_fraction:.3f}"),
            ]
        cells = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
            for name, value in rows
        )
        return f"<table>{cells}</table>"


class Legality(NamedTuple):
    """Answer of `legality`."""

    legal: bool
    reason: Optional[str]
    """First refusal; None if legal."""
    executable: bool
    """True if `plumbline run` of this build takes it too."""


def predict(
    config: Config = None, /, *, sequence_lengths: Optional[Iterable[int]] = None, **keys: Value
) -> Prediction:
    """Predict memory and time of one configuration.

    config: a YAML file, a model preset, a Hugging Face folder, or a mapping of keys. keys: configuration keys
    that go before those of config, for example tp=2. sequence_lengths: tokens of documents that are packed in
    this order into sequences, a list or an array; attention is within each. Raises InputError if it cannot be
    predicted.
    """
    request = request_of("predict", config, keys, sequence_lengths)
    return Prediction(request, ask(request))


def legality(config: Config = None, /, **keys: Value) -> Legality:
    """Tell if a configuration can be predicted, without predicting it. Memory does not count."""
    reply = ask(request_of("legality", config, keys))
    return Legality(reply["legal"], reply.get("reason"), bool(reply.get("executable", False)))

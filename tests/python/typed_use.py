"""Uses of the package that a strict type checker accepts."""

import pandas
import plumbline

prediction: plumbline.Prediction = plumbline.predict("gpt2-124m", hardware="h100", tp=1)
step: float = prediction.step_s
peak: int = prediction.peak_bytes
table: pandas.DataFrame = plumbline.search("gpt2-124m", gpus=2, gbs=4, hardware="h100", top=1)
sizes: pandas.DataFrame = plumbline.size("gpt2-124m", gpus=2, gbs=4, hardware="h100", tokens="1B")
times: pandas.DataFrame = plumbline.bench("operator", "gemm", "--time-limit", "0.01")
bubble: float = plumbline.schedule("1f1b", 2, 4).bubble_fraction
makespan: float = plumbline.simulate("1f1b", 2, 4, costs={"stages": [{"forward_us": 1.0}]}).makespan_us
legal: bool = plumbline.legality("gpt2-124m", tp=5).legal

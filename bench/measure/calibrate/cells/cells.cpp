#include "bench/measure/calibrate/cells/cells.hpp"

#include <algorithm>

namespace plumbline::calibration {

CellLimits limits_for(FlopsPerSecond fp32, FlopsPerSecond bf16) {
  const auto limit = [](FlopsPerSecond rate) {
    return std::min(CellLimits::kMost, rate.value * kLongestCall.value);
  };
  return {limit(fp32), limit(bf16)};
}

std::vector<Cell> all_cells(const CellLimits& limits) {
  std::vector<Cell> all;
  const auto add = [&](std::vector<Cell> cells) {
    std::move(cells.begin(), cells.end(), std::back_inserter(all));
  };
  for (const DType type : {DType::fp32, DType::bf16}) {
    add(gemm_cells(type, limits));
    add(attention_cells(type, limits));
    for (auto* cells_of : {&memory_bound_cells, &distillation_cells, &by_row_cells, &fp8_cells, &level_cells})
      add((*cells_of)(type));
  }
  return all;
}

}  // namespace plumbline::calibration

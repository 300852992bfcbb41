#include "bench/calibrate/cells/cells.hpp"

namespace plumbline::calibration {

std::vector<Cell> all_cells() {
  std::vector<Cell> all;
  for (const DType type : {DType::fp32, DType::bf16}) {
    for (auto* cells_of : {&gemm_cells, &attention_cells, &memory_bound_cells, &distillation_cells,
                           &by_row_cells, &fp8_cells, &level_cells}) {
      for (Cell& cell : (*cells_of)(type)) all.push_back(std::move(cell));
    }
  }
  return all;
}

}  // namespace plumbline::calibration

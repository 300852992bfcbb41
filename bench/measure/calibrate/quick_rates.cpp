#include "bench/measure/calibrate/quick_rates.hpp"

#include <string_view>
#include <vector>

#include "bench/measure/calibrate/cell_timer.hpp"
#include "bench/measure/calibrate/probe.hpp"
#include "core/base/statistics.hpp"
#include "kernels/cpu/cpu_operators.hpp"

namespace plumbline::calibration {
namespace {

constexpr double kFewFlops = 1e7;  // of a call too small to show the rate
constexpr double kBytesOfUpdate =
    28;  // that AdamW moves per parameter: weight and moments in and out, gradient in

}  // namespace

HardwareProfile with_quick_rates(HardwareProfile guess) {
  const std::unique_ptr<Operators> operators = make_cpu_operators();
  Pools pools(kProbePools);
  CellTimer timer(*operators, pools);
  std::vector<double> updates;  // bytes per second
  for (const DType storage : {DType::fp32, DType::bf16}) {
    std::vector<double> products;  // FLOP per second
    for (const Cell& cell : probe_cells(storage)) {
      const double flops = 2 * cell.at[0] * cell.at[1] * cell.at[2];
      const bool is_product = cell.table == Table::gemm && flops > kFewFlops;
      const bool is_update = std::string_view(cell.key).starts_with("adam");
      if (!is_product && !is_update) continue;
      timer.begin(cell, 0);
      const double seconds = timer.usual();
      if (is_product) products.push_back(flops / seconds);
      if (is_update) updates.push_back(kBytesOfUpdate * cell.at[0] / seconds);
    }
    if (products.empty()) continue;
    const FlopsPerSecond peak{median(products) / guess.gemm_efficiency};
    (storage == DType::fp32 ? guess.peak_fp32 : guess.peak_16bit) = peak;
  }
  if (!updates.empty()) guess.memory_bandwidth = {median(updates) / guess.bandwidth_efficiency};
  return guess;
}

}  // namespace plumbline::calibration

#include "bench/evaluate/host_memory_check.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/memory/memory_model.hpp"
#include "bench/measure/machine/available_memory.hpp"
#include "bench/plan/plan.hpp"
#include "core/base/byte_text.hpp"
#include "core/base/error.hpp"

namespace plumbline {

Bytes host_memory_of(const RunConfig& config, RanksOfHost ranks) {
  const MachineConfig& machine = config.machine;
  if (machine.backend == Backend::emulated) return {};
  const MemoryPrediction memory = predict_memory(config, step_for(config));
  Bytes sum;
  const int end = std::min(ranks.first + ranks.count, config.layout().world());
  for (int rank = ranks.first; rank < end; ++rank) {
    const RankMemory& of_rank = memory.of_rank(rank);
    sum += of_rank.host;
    if (machine.backend != Backend::cpu) continue;
    const Bytes peak = of_rank.peak.total();
    sum += machine.memory_budget.value > 0 ? std::min(peak, machine.memory_budget) : peak;
  }
  return sum;
}

std::optional<std::string> why_not_in_host_memory(const RunConfig& config, RanksOfHost ranks,
                                                  Bytes available) {
  const Bytes needed = available.value > 0 ? host_memory_of(config, ranks) : Bytes{};
  if (needed <= available) return std::nullopt;
  return fmt::format(
      "host memory: found {} available, expected {} for the {} {} of this host; use more hosts (--hostfile), "
      "a smaller model or micro-batch, or backend emulated, which has no tensors",
      brief_bytes(available), brief_bytes(needed), ranks.count, ranks.count == 1 ? "rank" : "ranks");
}

void check_host_memory(const RunConfig& config, RanksOfHost ranks) {
  if (const auto why = why_not_in_host_memory(config, ranks, available_memory())) throw OutOfMemory(*why);
}

}  // namespace plumbline

#include "bench/evaluate/budget_check.hpp"

#include <fmt/format.h>

#include "analysis/memory/memory_model.hpp"
#include "core/base/byte_text.hpp"
#include "core/base/error.hpp"

namespace plumbline {

void check_budget(const RunConfig& config, const Schedule& schedule) {
  const Bytes budget = config.machine.memory_budget;
  if (budget.value == 0) return;
  const MemoryPrediction memory = predict_memory(config, schedule);
  const RankMemory* worst = nullptr;
  for (const RankMemory& rank : memory.ranks) {
    if (worst == nullptr || rank.held.total() > worst->held.total()) worst = &rank;
  }
  if (worst == nullptr || worst->held.total() <= budget) return;
  const ByteUnit unit = column_unit(worst->held.total());
  std::string parts;
  for (const Category category : {Category::parameters, Category::gradients, Category::optimizer,
                                  Category::teacher, Category::communication, Category::workspace}) {
    if (worst->held[category].value == 0) continue;
    parts +=
        fmt::format("{}{} {}", parts.empty() ? "" : ", ", name_of(category), unit.of(worst->held[category]));
  }
  throw OutOfMemory(fmt::format(
      "memory_budget: found {} {}, but rank {} needs {} {} before its first micro-batch ({}); expected more, "
      "or "
      "a model split further (tensor_model_parallel_size, pipeline_model_parallel_size, zero_stage)",
      unit.of(budget), unit.name, worst->rank, unit.of(worst->held.total()), unit.name, parts));
}

}  // namespace plumbline

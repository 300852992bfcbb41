#include "analysis/published/dialect/published_layers.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <vector>

#include "analysis/published/dialect/row_cells.hpp"
#include "core/base/error.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kMostStages = 4096;

bool is_set(const Cells& cells, std::string_view column, const std::string& origin) {
  const auto at = cells.find(column);
  if (at == cells.end() || at->second == "false") return false;
  if (at->second == "true") return true;
  throw InputError(
      fmt::format("{}: {}: found \"{}\", expected true or false", origin, column, printable(at->second)));
}

std::vector<int> redistributed_layers(const RunConfig& config, int stages) {
  const auto h = static_cast<double>(config.model.hidden);
  const double layer = 12 * h + 2 * static_cast<double>(config.batch.seq_length);
  const auto output = static_cast<int>(std::round(static_cast<double>(config.model.vocab) / layer));
  const int total = static_cast<int>(config.model.layers) + output;
  std::vector<int> layers;
  layers.reserve(static_cast<std::size_t>(stages));
  for (int stage = 0; stage < stages; ++stage) {
    layers.push_back(total / stages + (stage >= stages - total % stages ? 1 : 0));
  }
  // If the output layer counts as more layers than the last stage has, the other stages give up the rest.
  layers.back() -= output;
  for (int stage = stages - 2; stage >= 0 && layers.back() < 0; stage = stage == 0 ? stages - 2 : stage - 1) {
    layers[static_cast<std::size_t>(stage)] -= 1;
    layers.back() += 1;
  }
  return layers;
}

}  // namespace

void put_layers(const Cells& cells, const std::string& origin, RunConfig& config) {
  ParallelConfig& parallel = config.parallel;
  const int first = is_set(cells, "account_for_embedding_in_pipeline_split", origin) ? 1 : 0;
  const int last = is_set(cells, "account_for_loss_in_pipeline_split", origin) ? 1 : 0;
  const std::int64_t counted = config.model.layers + first + last;
  if (const auto at = cells.find("num_layers_per_virtual_pipeline_stage"); at != cells.end()) {
    const double each = cell_number(at->second, origin, at->first, 1, 10'000);
    const double chunks = static_cast<double>(counted) / (parallel.pipeline * each);
    if (chunks < 1 || chunks != std::floor(chunks)) {
      throw InputError(
          fmt::format("{}: {}: found {}, expected a number by which {} layers divide among {} pipeline ranks",
                      origin, at->first, each, counted, parallel.pipeline));
    }
    parallel.pp.virtual_chunks = static_cast<int>(chunks);
  }
  if (!cells.contains("pipeline_schedule") && parallel.pp.virtual_chunks > 1)
    parallel.pp.schedule = "interleaved";
  const std::int64_t stages = std::int64_t{parallel.pipeline} * parallel.pp.virtual_chunks;
  if (stages > kMostStages) {
    throw InputError(fmt::format("{}: pipeline_model_parallel_size: {} stages, expected at most {}", origin,
                                 stages, kMostStages));
  }
  std::string& distribution = parallel.pp.layer_distribution;
  if (first + last > 0) {
    distribution = first + last == 2 ? "embedding+loss" : first == 1 ? "embedding" : "loss";
  } else if (distribution == "redistributed") {
    distribution = fmt::format("{}", fmt::join(redistributed_layers(config, static_cast<int>(stages)), ","));
  }
}

}  // namespace plumbline

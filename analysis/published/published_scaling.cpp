// Scaling of the vocabulary layers when they are split over a pipeline (arXiv:2411.05288 table 3).
#include <fmt/format.h>

#include <array>
#include <utility>

#include "analysis/hardware/hardware.hpp"
#include "analysis/published/published_readers.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "analysis/time/action_time.hpp"

namespace plumbline {
namespace {

/// A stage without layers: the embedding (`first`) or the output layer, whole or as a shard.
StageShape end_of_model(const RunConfig& config, const Software& software, bool first) {
  StageShape shape = stage_shapes(config, 1).front();
  shape.software = &software;
  shape.traits = kFrameworkTraits;
  shape.layers = 0;
  shape.place.first = first;
  shape.place.last = !first;
  shape.ends.positions = 0;
  return shape;
}

double seconds(const StageShape& shape, std::initializer_list<ActionType> passes,
               const HardwareProfile& hardware) {
  double sum = 0;
  for (const ActionType pass : passes) sum += time_action(work_of(shape, pass), hardware, {}).all.value;
  return sum;
}

}  // namespace

/// 100 % is linear: n ranks need a share of 1/n of the time that one rank needs for the whole layer. The
/// models are those of tables 5 and 6, 256 thousand words.
void vocabulary_scaling(const PublishedRow& row, const Profiles& profiles, const ScheduleMakers&,
                        std::vector<ComparedRow>& rows) {
  using enum ActionType;
  HardwareProfile hardware = *find_hardware_preset("a100-sxm-80gb");
  hardware.accelerator()->constants = profiles.machine("a100-sxm-80gb");
  const Software& software = profiles.generation("megatron-vocabulary");
  const std::string& layer = row.repeated("layer");
  const bool input = layer == "input";
  const bool one_barrier = layer == "output-vocab-2";
  if (!input && !one_barrier && layer != "output-vocab-1") {
    row.fail("layer", "input, output-vocab-1 or output-vocab-2");
  }
  constexpr std::array<std::pair<int, int>, 3> kHidden = {{{8, 3072}, {16, 4096}, {32, 5120}}};
  for (const auto& [ranks, hidden] : kHidden) {
    const std::string column = fmt::format("{}gpu_pct", ranks);
    if (!row.has(column)) continue;
    const RunConfig config =
        gpt_run(32, hidden, hidden / 128, 256000, row.integer("seq", 1 << 22), "megatron-vocabulary");
    StageShape shape = end_of_model(config, software, input);
    const double whole = seconds(shape, {forward, backward}, hardware);
    shape.ends.vocab /= ranks;
    shape.ends.outputs = shape.ends.vocab;
    shape.vocabulary = {.split = true, .two_barriers = !one_barrier, .carries = true, .shards = ranks};
    const double share = input ? seconds(shape, {input_forward, input_backward}, hardware)
                               : seconds(shape, {vocab_forward, vocab_backward}, hardware);
    rows.push_back({fmt::format("{} s{} on {}", layer, config.batch.seq_length, ranks),
                    input ? "input_percent" : "output_percent", 100 * whole / (ranks * share),
                    row.number(column), ""});
  }
}

}  // namespace plumbline

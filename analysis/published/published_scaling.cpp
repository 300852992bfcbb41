// How the vocabulary layers scale when they are split over a pipeline (arXiv:2411.05288 table 3).
#include <fmt/format.h>

#include <array>
#include <utility>

#include "analysis/cluster/stage_cost.hpp"
#include "analysis/published/published_readers.hpp"

namespace plumbline::cluster {
namespace {

double both_directions(const PartCost& part) {
  return seconds_of(part.forward) + seconds_of(part.backward_input) + seconds_of(part.backward_weight);
}

}  // namespace

/// 100 % is linear: n ranks need a share of 1/n of the time that one rank needs for the whole layer. The
/// models are those of tables 5 and 6, 256 thousand words.
void vocabulary_scaling(const PublishedRow& row, const Profiles& profiles, const ScheduleMaker&,
                        std::vector<ComparedRow>& rows) {
  const Machine& machine = profiles.machine("a100-sxm-80gb");
  const Software& software = profiles.generation("megatron-vocabulary");
  const std::string& layer = row.repeated("layer");
  const bool input = layer == "input";
  const bool one_barrier = layer == "output-vocab-2";
  if (!input && !one_barrier && layer != "output-vocab-1") {
    row.fail("layer", "input, output-vocab-1 or output-vocab-2");
  }
  constexpr std::array<std::pair<int, double>, 3> kHidden = {{{8, 3072}, {16, 4096}, {32, 5120}}};
  for (const auto& [ranks, hidden] : kHidden) {
    const std::string column = fmt::format("{}gpu_pct", ranks);
    if (!row.has(column)) continue;
    Job job;
    job.sequence = row.integer("seq", 1 << 22);
    job.model = gpt_model(32, hidden, hidden / 128, 256000, 0, false);
    job.pipeline = ranks;
    double whole = 0;
    if (input) {
      whole = both_directions(embedding_cost(machine, software, job));
    } else {
      whole = both_directions(output_cost(machine, software, job, 1));
    }
    job.vocabulary = one_barrier ? VocabPasses::one_barrier : VocabPasses::two_barriers;
    JobCosts costs = job_costs(machine, software, job);
    costs.slowdown = 1;  // measured by themselves
    const StageCosts stage = stage_cost(costs, 0, false, false);
    const double share = input ? (stage.input_forward + stage.input_backward).value
                               : (stage.vocab_forward + stage.vocab_backward).value;
    rows.push_back({fmt::format("{} s{} on {}", layer, job.sequence, ranks),
                    input ? "input_percent" : "output_percent", 100 * whole / (ranks * share),
                    row.number(column), ""});
  }
}

}  // namespace plumbline::cluster

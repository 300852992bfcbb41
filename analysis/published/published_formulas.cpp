#include "analysis/published/published_formulas.hpp"

#include <fmt/format.h>

#include <array>
#include <map>
#include <utility>

#include "analysis/cluster/memory.hpp"
#include "analysis/published/published_readers.hpp"
#include "analysis/simulate/simulator.hpp"

namespace plumbline::cluster {
namespace {

using Rows = std::vector<ComparedRow>;

/// The models of arXiv:2205.05198 table 3.
Job korthikanti_model(const PublishedRow& row) {
  const std::string& name = row.repeated("model");
  Job job;
  job.sequence = 2048;
  job.tensor = 8;
  job.micro_batch = 1;
  if (name == "22B") {
    job.model = gpt_model(48, 6144, 64, 51200, 2048, true);
    job.micro_batch = 4;
  } else if (name == "175B") {
    job.model = gpt_model(96, 12288, 96, 51200, 2048, true);
    job.pipeline = 8;
    job.chunks = 3;
  } else if (name == "530B") {
    job.model = gpt_model(105, 20480, 128, 51200, 2048, true);
    job.pipeline = 35;
    job.chunks = 3;
  } else if (name == "1T") {
    job.model = gpt_model(128, 25600, 160, 51200, 2048, true);
    job.pipeline = 64;
  } else {
    row.fail("model", "22B, 175B, 530B or 1T");
  }
  return job;
}

Job with(Job job, bool sequence_parallel, Recomputation recomputation) {
  job.sequence_parallel = sequence_parallel;
  job.recomputation = recomputation;
  return job;
}

/// Figure 7: activations per layer relative to plain tensor parallelism. "Full" recomputes everything but the
/// layer's input, which it does not split.
void activation_percent(const PublishedRow& row, const Profiles& profiles, const ScheduleMaker&, Rows& rows) {
  const Software& software = profiles.generation("megatron-2022");
  const Job job = korthikanti_model(row);
  const double whole = layer_activation_bytes(software, job);
  const std::array<std::pair<const char*, Job>, 4> techniques = {
      {{"seq_pct", with(job, true, Recomputation::none)},
       {"sel_pct", with(job, false, Recomputation::selective)},
       {"seqsel_pct", with(job, true, Recomputation::selective)},
       {"full_pct", with(job, false, Recomputation::full)}}};
  for (const auto& [column, variant] : techniques) {
    if (!row.has(column)) continue;
    rows.push_back({fmt::format("{} {}", row.repeated("model"), column), "activation_percent",
                    100 * layer_activation_bytes(software, variant) / whole, row.number(column), ""});
  }
}

/// Figure 1: memory of the fullest rank in GiB, interleaved pipelines hold P·(1 + (P-1)/(P·V)) micro-batches.
void memory_gib(const PublishedRow& row, const Profiles& profiles, const ScheduleMaker&, Rows& rows) {
  const Software& software = profiles.generation("megatron-2022");
  const Job job = korthikanti_model(row);
  const std::string& name = row.repeated("model");
  // The figure counts the parameters of the transformer layers.
  const double parameters = job.model.layers * job.model.layer_parameters() / (job.tensor * job.pipeline);
  if (row.has("params_optimizer_gib")) {
    rows.push_back({name + " parameters and optimizer", "state_bytes", state_bytes(software, job, parameters),
                    row.number("params_optimizer_gib") * kBytesPerGiB, ""});
  }
  const double in_flight =
      job.model.layers * (1 + (job.chunks > 1 ? (job.pipeline - 1.0) / (job.pipeline * job.chunks) : 0.0));
  const std::array<std::pair<const char*, Job>, 2> techniques = {
      {{"activations_none_gib", job},
       {"activations_seq_sel_gib", with(job, true, Recomputation::selective)}}};
  for (const auto& [column, variant] : techniques) {
    if (!row.has(column)) continue;
    rows.push_back({name + " " + column, "activation_bytes",
                    in_flight * layer_activation_bytes(software, variant), row.number(column) * kBytesPerGiB,
                    ""});
  }
}

/// Table 4: one layer of the 22B model.
void layer_22b(const PublishedRow& row, const Profiles& profiles, const ScheduleMaker&, Rows& rows) {
  Job job;
  job.sequence = 2048;
  job.tensor = 8;
  job.micro_batch = 4;
  job.model = gpt_model(48, 6144, 64, 51200, 2048, true);
  const std::string& name = row.repeated("experiment");
  job.sequence_parallel = name.find("sequence") != std::string::npos;
  if (name.find("full") != std::string::npos) job.recomputation = Recomputation::full;
  if (name.find("selective") != std::string::npos) job.recomputation = Recomputation::selective;
  const PartCost cost =
      layer_cost(profiles.machine("a100-sxm-80gb"), profiles.generation("megatron-2022"), job);
  const double forward = cost.forward.device + cost.forward.tensor;
  const double backward = cost.recompute.device + cost.recompute.tensor + cost.backward_input.device +
                          cost.backward_input.tensor + cost.backward_weight.device;
  if (row.has("forward_ms")) {
    rows.push_back({name + ", forward", "layer_s", forward, row.number("forward_ms") / 1e3, ""});
  }
  if (row.has("backward_ms")) {
    rows.push_back({name + ", backward", "layer_s", backward, row.number("backward_ms") / 1e3, ""});
  }
}

/// ZeRO, arXiv:1910.02054 table 1: decimal GB of model states, 16 bytes per parameter unsharded.
void zero_memory(const PublishedRow& row, const Profiles& profiles, const ScheduleMaker&, Rows& rows) {
  const Software& software = profiles.generation("megatron-2021");
  Job job;
  job.data = row.integer("dp");
  constexpr std::array<std::pair<const char*, double>, 3> kModels = {
      {{"7.5B", 7.5e9}, {"128B", 128e9}, {"1T", 1e12}}};
  constexpr std::array<const char*, 3> kStages = {"_Pos", "_Pos+g", "_Pos+g+p"};
  for (const auto& [name, parameters] : kModels) {
    for (int stage = 1; stage <= 3; ++stage) {
      const std::string column = std::string(name) + kStages[static_cast<std::size_t>(stage - 1)];
      if (!row.has(column)) continue;
      job.zero = stage;
      rows.push_back({fmt::format("{} D{}", column, job.data), "state_bytes",
                      state_bytes(software, job, parameters), row.number(column) * 1e9, ""});
    }
  }
}

/// The stage-times artifact of arXiv:2411.05288: measured times of every stage in, iteration time out.
void stage_times(const PublishedRow& row, const Profiles& profiles, const ScheduleMaker& make, Rows& rows) {
  const auto numbers = [&](const char* column) {
    std::vector<double> values;
    const std::string& text = row.repeated(column);
    for (const char* at = text.c_str(); *at != '\0';) {
      char* end = nullptr;
      const double value = std::strtod(at, &end);
      if (end == at) break;
      if (!(value >= 0 && value < 1e12)) row.fail(column, "times in microseconds");
      values.push_back(value * 1e-6);
      at = end;
    }
    return values;
  };
  const std::string& method = row.repeated("method");
  ScheduleNeed need;
  need.name = "1f1b";
  need.pipeline = row.integer("pp", 256);
  need.microbatches = row.integer("num_microbatches", 10'000);
  need.vocabulary = passes_named(method);
  const std::vector<double> forward = numbers("F_us_per_stage");
  const std::vector<double> backward = numbers("B_us_per_stage");
  const std::vector<double> output = numbers("S_us_per_stage(inferred label)");
  const std::vector<double> input = numbers("T_us_per_stage(inferred label)");
  const auto stages = static_cast<std::size_t>(need.pipeline);
  if (forward.size() != stages || backward.size() != stages || output.size() != stages ||
      input.size() != stages) {
    row.fail("F_us_per_stage", fmt::format("{} times in each of the four columns", stages));
  }
  const Machine& machine = profiles.machine("a100-sxm-80gb");
  Job job;
  job.sequence = row.integer("seq", 1 << 22);
  job.model = gpt_model(row.integer("layers", 10'000), row.integer("hidden"), row.integer("heads", 10'000),
                        row.integer("vocab", 10'000'000), 0, false);
  job.pipeline = need.pipeline;
  job.microbatches = need.microbatches;
  job.micro_batch = row.integer("micro_batch", 10'000);
  job.vocabulary = need.vocabulary;
  const Software& software = profiles.generation("megatron-vocabulary");
  const Placement placement = even_placement(job.model.layers, need.pipeline);
  Costs costs = stage_costs(machine, software, job, placement);
  const bool split = need.vocabulary != VocabPasses::none;
  // Of the three products of the output layer one is in S with two barriers, two with one barrier.
  const double scores = need.vocabulary == VocabPasses::one_barrier ? 2.0 / 3 : 1.0 / 3;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    StageCosts& cost = costs.stages[stage];
    cost.forward.value = forward[stage];
    cost.backward.value = backward[stage];
    if (!split) continue;
    cost.vocab_forward.value = output[stage] * scores;
    cost.vocab_backward.value = output[stage] * (1 - scores);
    cost.input_forward.value = cost.input_backward.value = input[stage] / 2;
  }
  const double step = simulate_makespan(make(need, costs), costs).value +
                      rank_parameters(job, placement, 0, need.pipeline) * software.optimizer_bytes /
                          (machine.device.bandwidth * machine.device.stream_share);
  rows.push_back(
      {fmt::format("{} {}", method, job.model.vocab), "step_s", step, row.number("iter_ms") / 1e3, ""});
}

}  // namespace

Model gpt_model(double layers, double hidden, double heads, double vocab, double positions, bool tied) {
  Model model;
  model.layers = layers;
  model.hidden = hidden;
  model.heads = model.kv_heads = heads;
  model.head = hidden / heads;
  model.ffn = 4 * hidden;
  model.vocab = vocab;
  model.positions = positions;
  model.tied = tied;
  return model;
}

FormulaReader formula_reader(std::string_view table) {
  constexpr std::array<std::pair<std::string_view, FormulaReader>, 8> kReaders = {{
      {"korthikanti_fig7_activation_percent", activation_percent},
      {"korthikanti_fig1_memory_gib", memory_gib},
      {"korthikanti_table4_layer_22b", layer_22b},
      {"zero_table1_memory_gb", zero_memory},
      {"vocab_parallel_8gpu_stage_times", stage_times},
      {"vocab_parallel_table3_scaling", vocabulary_scaling},
      {"zero_bubble_table5", handcrafted_bubbles},
      {"schedule_formulas", schedule_formulas},
  }};
  for (const auto& [name, reader] : kReaders) {
    if (name == table) return reader;
  }
  return nullptr;
}

}  // namespace plumbline::cluster

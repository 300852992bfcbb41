#include "analysis/memory/first_principles_report.hpp"

#include "analysis/memory/action_memory.hpp"
#include "analysis/step/parameters.hpp"
#include "analysis/step/step_model.hpp"

namespace plumbline {
namespace {

double formula_bytes(const RunConfig& config, const ActivationComparison& technique) {
  const ModelConfig& m = config.model;
  const auto real = [](auto size) { return static_cast<double>(size); };
  if (m.activation == Activation::gelu) {
    const ClassicLayer layer{
        real(config.batch.seq_length), real(config.batch.micro_batch_size), real(m.hidden), real(m.heads),
        real(config.parallel.tensor),  technique.sequence_parallel};
    return classic_activation_bytes(layer, technique.recompute);
  }
  ModernLayer layer;
  layer.tokens = real(config.batch.seq_length * config.batch.micro_batch_size);
  layer.hidden = real(m.hidden);
  layer.query_width = real(m.heads * m.head_dim);
  layer.kv_width = real(m.kv_heads * m.head_dim);
  layer.ffn = real(m.mixture ? m.mixture.top_k * m.ffn + m.mixture.shared : m.ffn);
  layer.heads = real(m.heads);
  layer.element_bytes = real(size_of(config.numerics.precision));
  layer.tensor = real(config.parallel.tensor);
  layer.sequence_parallel = technique.sequence_parallel;
  layer.hidden_dropout = config.numerics.hidden_dropout > 0;
  layer.fp8 = config.numerics.fp8.on();
  return modern_activation_bytes(layer, technique.recompute);
}

/// Bytes per layer that a forward keeps for one more recomputed group of layers.
double exact_bytes(RunConfig config, const ActivationComparison& technique) {
  config.parallel.sequence_parallel = technique.sequence_parallel;
  config.recompute.granularity = technique.recompute;
  config.recompute.modules = kCoreAttention;  // as the formulas have it
  StageShape shape = stage_shapes(config, 1).front();
  shape.kinds.clear();  // in MoE models: layers with experts
  const std::int64_t group = technique.recompute == Recompute::full ? shape.recomputation.layers : 1;
  const auto kept = [&](std::int64_t layers) {
    shape.layers = layers;
    return action_profile(shape, ActionType::forward).net[Category::activations].value;
  };
  return static_cast<double>(kept(2 * group) - kept(group)) / static_cast<double>(group);
}

std::vector<ActivationComparison> compare_activations(const RunConfig& config) {
  std::vector<ActivationComparison> rows;
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
    for (const bool sequence_parallel : {false, true}) {
      if (sequence_parallel && config.parallel.tensor == 1) continue;
      ActivationComparison row;
      row.sequence_parallel = sequence_parallel;
      row.recompute = recompute;
      row.configured = recompute == config.recompute.granularity &&
                       config.recompute.modules == kCoreAttention &&
                       sequence_parallel == config.parallel.effective_sequence_parallel();
      row.formula = formula_bytes(config, row);
      row.exact = exact_bytes(config, row);
      rows.push_back(row);
    }
  }
  for (ActivationComparison& row : rows) {
    row.formula_percent = 100 * row.formula / rows.front().formula;
    row.exact_percent = 100 * row.exact / rows.front().exact;
  }
  return rows;
}

}  // namespace

FormulaReport compare_with_formulas(const RunConfig& config, const Schedule& schedule,
                                    const MemoryPrediction& memory) {
  FormulaReport report;
  report.zero_stage = config.parallel.effective_zero_stage();
  report.data_parallel = config.parallel.state_shards();
  report.bytes = state_bytes(config.numerics.precision, config.numerics.grad_dtype, config.optimizer);
  report.states.resize(static_cast<std::size_t>(schedule.ranks));
  const StepModel model(config, schedule);
  for (const StageShape& shape : model.shapes()) {
    const int rank = schedule.rank_of_stage[static_cast<std::size_t>(shape.place.stage)];
    report.states[static_cast<std::size_t>(rank)].parameters += parameters_of(shape).total();
  }
  for (const RankMemory& rank : memory.ranks) {
    StateComparison& row = report.states[static_cast<std::size_t>(rank.pipeline_rank)];
    row.pipeline_rank = rank.pipeline_rank;
    row.exact =
        rank.held[Category::parameters] + rank.held[Category::gradients] + rank.held[Category::optimizer];
    row.formula = zero_model_states(static_cast<double>(row.parameters), report.zero_stage,
                                    report.data_parallel, report.bytes)
                      .total();
  }
  report.classic = config.model.activation == Activation::gelu;
  report.activations = compare_activations(config);
  return report;
}

}  // namespace plumbline

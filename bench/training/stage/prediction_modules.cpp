#include "bench/training/stage/prediction_modules.hpp"

#include <algorithm>
#include <utility>

#include "bench/training/layer/norm.hpp"
#include "bench/training/parameters/views.hpp"
#include "bench/training/stage/layer_use.hpp"

namespace plumbline::training {
namespace {

/// Embedding for the modules' lookups: the first stage's if it is here, else the copy that this stage has.
InputEnd lookups(RankResources& rank, const StageEntry& entry) {
  const auto& stages = rank.parameters.stages;
  const auto first =
      std::find_if(stages.begin(), stages.end(), [](const StageEntry& other) { return other.part.first(); });
  if (first != stages.end()) return {rank, *first, first->parameters.find("embedding.weight")};
  return {rank, entry, entry.parameters.find(entry.part.copies_embedding ? kEmbeddingCopy : "output.weight")};
}

bool recomputes_all(const RankResources& rank) {
  return rank.context.config.recompute.granularity == Recompute::full;
}

}  // namespace

PredictionModules::PredictionModules(RankResources& rank, const StageEntry& entry, const OutputEnd& output)
    : rank_(rank), output_(output), embedding_(lookups(rank, entry)) {
  const int microbatches = rank.placement.microbatches / rank.placement.routes;
  for (std::int64_t module = 0; module < entry.part.modules; ++module) {
    const std::int64_t layer = rank.context.model().layers + module;
    layers_.emplace_back(rank.memory, entry, layer, rank.fp8.layer(entry, entry.part.layers + module));
    rank.gradients.expect(layers_.back().unit, microbatches);
    if (layers_.back().expert_unit >= 0) rank.gradients.expect(layers_.back().expert_unit, microbatches);
    rank.gradients.expect(embedding_unit(), microbatches);
    const auto vector = [&](const char* role, const ParameterSet& set) {
      return vector_of(entry, entry.parameters.find(role, layer), set);
    };
    const auto both = [&](const char* role, Matrix& value, Matrix& gradient) {
      value = vector(role, rank.memory.values);
      gradient = vector(role, rank.memory.gradients);
    };
    Ends& ends = ends_.emplace_back();
    ends.join = &entry.parameters.find("join.weight", layer);
    both("embedding_side_norm.weight", ends.embedding_norm, ends.embedding_norm_gradient);
    both("hidden_side_norm.weight", ends.hidden_norm, ends.hidden_norm_gradient);
    both("module_norm.weight", ends.norm, ends.norm_gradient);
  }
}

/// Behind those of all layers.
std::int64_t PredictionModules::embedding_site(std::size_t module) const {
  const ModelConfig& model = rank_.context.model();
  return dropout_site::after_attention(model.layers + model.prediction_modules) +
         static_cast<std::int64_t>(module);
}

Matrix PredictionModules::own_columns(const Matrix& all) const {
  const std::int64_t columns = all.cols / rank_.context.tensor_size();
  return all.columns(rank_.context.tensor_rank() * columns, columns);
}

/// The layer's input: products of columns, of which every tensor rank has its own.
void PredictionModules::join(std::size_t module, const Matrix& unit_row, const Matrix& hidden,
                             ModuleActivations& saved) const {
  const TrainingContext& context = rank_.context;
  const std::int64_t h = context.shape.hidden;
  const Ends& ends = ends_[module];
  saved.joined = context.make(context.kept, "module input pair", context.shape.rows, 2 * h);
  saved.joined_stats = context.make_fp32(context.kept, "module input statistics", 2, context.shape.rows);
  const Matrix pair = saved.joined;
  const Matrix stats = saved.joined_stats;
  norm_forward(context, saved.embedded, ends.embedding_norm, {}, pair.columns(0, h), stats.row_range(0, 1));
  norm_forward(context, hidden, ends.hidden_norm, {}, pair.columns(h, h), stats.row_range(1, 1));
  saved.layer.input = context.make_stream(Category::activations, "layer input");
  const AllRows rows = context.gather_rows(pair);
  context.sum_over_tensor_ranks(saved.layer.input, [&](const Matrix& to) {
    if (context.tensor_size() > 1) context.operators.fill(to, 0);
    context.operators.gemm(
        {.a = rows, .b = view_of(*ends.join, unit_row), .c = own_columns(to), .b_transposed = true});
  });
}

void PredictionModules::forward(std::uint32_t microbatch, OutputActivations& main, States& saved,
                                const NoteRouting& note) {
  const TrainingContext& context = rank_.context;
  const MicrobatchDropout dropout = rank_.dropout(microbatch);
  output_.normalise(main);
  for (std::size_t k = 0; k < layers_.size(); ++k) {
    saved[k].embedded = context.make_stream(context.kept, "module embedding");
    embedding_.forward(rank_.module_tokens(rank_.module_inputs, k, microbatch), saved[k].embedded);
    saved[k].embedded_mask = dropout.drop(embedding_site(k), saved[k].embedded);
  }
  for (std::size_t k = 0; k < layers_.size(); ++k) {
    ModuleActivations& here = saved[k];
    const Layer& layer = layers_[k];
    const LayerWeights weights = begin_use(rank_, layer);
    join(k, weights.unit_row, k == 0 ? main.norm : saved[k - 1].output.norm, here);
    layer_forward(context, rank_.shared, dropout, layer, weights, here.layer);
    note(layer, here.layer.mixture.routing);
    here.output.input = context.make_stream(Category::activations, "layer input");
    layer_output(context, dropout, layer, weights, here.layer, here.output.input);
    if (recomputes_all(rank_)) here.layer.keep_input_only();
    end_use(rank_, layer);
    here.output.norm = context.make_stream(context.kept, "module norm");
    here.output.stats = context.make_fp32(context.kept, "module norm statistics", context.shape.norm_stats,
                                          context.shape.rows);
    norm_forward(context, here.output.input, ends_[k].norm, {}, here.output.norm, here.output.stats);
  }
  const DType type = context.config.numerics.precision;
  main.logits = output_.project(main.norm, Category::logits, type);
  for (ModuleActivations& here : saved)
    here.output.logits = output_.project(here.output.norm, Category::logits, type);
}

void PredictionModules::loss(std::uint32_t microbatch, States& saved, std::vector<NumberSum>& sums) const {
  for (std::size_t k = 0; k < saved.size(); ++k) {
    sums[k].add(output_.loss(rank_.module_tokens(rank_.module_targets, k, microbatch),
                             rank_.per_module_token(k), saved[k].output));
  }
}

std::vector<Tensor> PredictionModules::norm_gradients(std::uint32_t microbatch, OutputActivations& main,
                                                      States& saved) const {
  std::vector<Tensor> gradients;
  gradients.reserve(saved.size() + 1);
  gradients.push_back(output_.norm_gradient(microbatch, main));
  for (ModuleActivations& here : saved) gradients.push_back(output_.norm_gradient(microbatch, here.output));
  return gradients;
}

void PredictionModules::output_weight_gradient(OutputActivations& main, States& saved) const {
  output_.weight_gradient(main);
  for (ModuleActivations& here : saved) output_.weight_gradient(here.output);
  rank_.gradients.done(output_.units().front());
}

void PredictionModules::output_backward_weight(OutputActivations& main, States& saved) const {
  output_weight_gradient(main, saved);
  main.norm.reset();
  for (ModuleActivations& here : saved) here.output.norm.reset();
}

/// Full recomputation: the layer's forward once more.
LayerWeights PredictionModules::layer_again(std::uint32_t microbatch, std::size_t module,
                                            ModuleActivations& saved) const {
  const Layer& layer = layers_[module];
  if (recomputes_all(rank_)) {
    const LayerWeights weights = begin_use(rank_, layer);
    const MicrobatchDropout dropout = rank_.dropout(microbatch);
    layer_forward(rank_.context, rank_.shared, dropout, layer, weights, saved.layer);
    saved.layer.output_mask = dropout.mask(dropout_site::after_mlp(layer.index));
    end_use(rank_, layer);
  }
  return begin_use(rank_, layer);
}

/// From that of the layer's input.
Tensor PredictionModules::pair_gradient(std::size_t module, const Matrix& all_rows,
                                        const Matrix& unit_row) const {
  const TrainingContext& context = rank_.context;
  Tensor pair =
      context.make(kPassing, "gradient of module input pair", context.shape.rows, 2 * context.shape.hidden);
  context.gemm_over_tensor_ranks(
      {.a = own_columns(all_rows), .b = view_of(*ends_[module].join, unit_row), .c = pair});
  return pair;
}

void PredictionModules::join_weight_gradient(std::size_t module, const Matrix& all_rows,
                                             ModuleActivations& saved) const {
  const TrainingContext& context = rank_.context;
  const Matrix dweight = view_of(*ends_[module].join, rank_.gradients.open(layers_[module].unit));
  {
    const AllRows pair = context.gather_rows(saved.joined);
    context.operators.gemm(
        {.a = own_columns(all_rows), .b = pair, .c = dweight, .a_transposed = true, .accumulate = true});
  }
  saved.joined.reset();
}

/// Turns the gradient of the layer's input into those of hidden states, which are added to, and of the
/// embedding; `stream`: buffer for the latter.
void PredictionModules::inputs_backward(std::uint32_t microbatch, std::size_t module, Tensor pair,
                                        const Matrix& hidden, const Matrix& hidden_gradient,
                                        ModuleActivations& saved, Tensor stream) const {
  const TrainingContext& context = rank_.context;
  const std::int64_t h = context.shape.hidden;
  const Ends& ends = ends_[module];
  const Matrix both = pair;
  const Matrix stats = saved.joined_stats;
  norm_backward(context, both.columns(0, h), saved.embedded, ends.embedding_norm, stats.row_range(0, 1), {},
                stream, ends.embedding_norm_gradient, {});
  saved.embedded.reset();
  norm_backward(context, both.columns(h, h), hidden, ends.hidden_norm, stats.row_range(1, 1), hidden_gradient,
                hidden_gradient, ends.hidden_norm_gradient, {});
  saved.joined_stats.reset();
  pair.reset();
  rank_.dropout(microbatch).backward_in_place(stream, saved.embedded_mask);
  embedding_.backward(microbatch, rank_.module_tokens(rank_.module_inputs, module, microbatch), stream);
}

void PredictionModules::backward(std::uint32_t microbatch, OutputActivations& main, States& saved,
                                 const OutputEnd::Place& gradient, bool defers_output) {
  const TrainingContext& context = rank_.context;
  std::vector<Tensor> norms = norm_gradients(microbatch, main, saved);
  if (!defers_output) output_weight_gradient(main, saved);
  for (std::size_t k = layers_.size(); k-- > 0;) {
    ModuleActivations& here = saved[k];
    const Layer& layer = layers_[k];
    Tensor stream = context.make_stream(kPassing, "gradient of module");
    norm_backward(context, norms[k + 1], here.output.input, ends_[k].norm, here.output.stats, {}, stream,
                  ends_[k].norm_gradient, {});
    norms[k + 1].reset();
    if (!defers_output) here.output.norm.reset();
    here.output.input.reset();
    here.output.stats.reset();
    const LayerWeights weights = layer_again(microbatch, k, here);
    Tensor dnorm = layer_backward(context, rank_.shared, rank_.dropout(microbatch), layer, weights,
                                  rank_.gradients, here.layer, stream);
    layer_input_gradient(context, layer, here.layer, std::move(dnorm), stream, stream);
    Tensor pair;
    {
      const AllRows all = context.gather_rows(stream);
      pair = pair_gradient(k, all, weights.unit_row);
      join_weight_gradient(k, all, here);
    }
    end_use(rank_, layer);
    layer.done(rank_.gradients);
    inputs_backward(microbatch, k, std::move(pair), k == 0 ? main.norm : saved[k - 1].output.norm, norms[k],
                    here, std::move(stream));
  }
  output_.stream_gradient(main, norms.front(), gradient());
  if (!defers_output) main.norm.reset();
  main.stats.reset();
  main.input.reset();
}

void PredictionModules::backward_input(std::uint32_t microbatch, OutputActivations& main, States& saved,
                                       const OutputEnd::Place& gradient) {
  const TrainingContext& context = rank_.context;
  std::vector<Tensor> norms = norm_gradients(microbatch, main, saved);
  for (std::size_t k = layers_.size(); k-- > 0;) {
    ModuleActivations& here = saved[k];
    const Layer& layer = layers_[k];
    here.layer.output_gradient = context.make_stream(Category::activations, "gradient of module");
    norm_backward(context, norms[k + 1], here.output.input, ends_[k].norm, here.output.stats, {},
                  here.layer.output_gradient, ends_[k].norm_gradient, {});
    norms[k + 1].reset();
    here.output.input.reset();
    here.output.stats.reset();
    const LayerWeights weights = layer_again(microbatch, k, here);
    Tensor dnorm =
        layer_backward_input(context, rank_.shared, rank_.dropout(microbatch), layer, weights, here.layer);
    here.input_gradient = context.make_stream(Category::activations, "gradient of module input");
    layer_input_gradient(context, layer, here.layer, std::move(dnorm), attention_block_gradient(here.layer),
                         here.input_gradient);
    Tensor pair = pair_gradient(k, context.gather_rows(here.input_gradient), weights.unit_row);
    end_use(rank_, layer);
    inputs_backward(microbatch, k, std::move(pair), k == 0 ? main.norm : saved[k - 1].output.norm, norms[k],
                    here, context.make_stream(kPassing, "gradient of module"));
  }
  output_.stream_gradient(main, norms.front(), gradient());
  main.stats.reset();
  main.input.reset();
}

void PredictionModules::backward_weight(OutputActivations& main, States& saved) {
  const TrainingContext& context = rank_.context;
  output_backward_weight(main, saved);
  for (std::size_t k = layers_.size(); k-- > 0;) {
    ModuleActivations& here = saved[k];
    layer_backward_weight(context, layers_[k], rank_.gradients, here.layer);
    join_weight_gradient(k, context.gather_rows(here.input_gradient), here);
    here.input_gradient.reset();
    layers_[k].done(rank_.gradients);
  }
}

}  // namespace plumbline::training

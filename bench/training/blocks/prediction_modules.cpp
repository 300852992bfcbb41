#include "bench/training/blocks/prediction_modules.hpp"

#include <algorithm>
#include <utility>

#include "bench/training/blocks/decoder_layer.hpp"
#include "bench/training/blocks/layer_use.hpp"
#include "bench/training/operators/norm.hpp"
#include "bench/training/operators/residual.hpp"
#include "bench/training/parameters/views.hpp"
#include "bench/training/tape/pass.hpp"

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

/// Place of the dropout of a module's looked-up tokens: behind those of all layers.
std::int64_t embedding_site(const ModelConfig& model, std::size_t module) {
  return dropout_site::after_attention(model.layers + model.prediction_modules) +
         static_cast<std::int64_t>(module);
}

}  // namespace

PredictionModules::PredictionModules(RankResources& rank, const StageEntry& entry)
    : embedding_(lookups(rank, entry)) {
  const int microbatches = rank.placement.microbatches / rank.placement.routes;
  layers_.reserve(static_cast<std::size_t>(entry.part.modules));
  for (std::int64_t module = 0; module < entry.part.modules; ++module) {
    const std::int64_t number = rank.context.model().layers + module;
    const Layer& layer =
        layers_.emplace_back(rank.memory, entry, number, rank.fp8.layer(entry, entry.part.layers + module));
    rank.gradients.expect(layer.unit, microbatches);
    if (layer.expert_unit >= 0) rank.gradients.expect(layer.expert_unit, microbatches);
    rank.gradients.expect(embedding_unit(), microbatches);
    const auto both = [&](const char* role, Matrix& value, Matrix& gradient) {
      const Parameter& parameter = entry.parameters.find(role, number);
      value = vector_of(entry, parameter, rank.memory.values);
      gradient = vector_of(entry, parameter, rank.memory.gradients);
    };
    Ends& ends = ends_.emplace_back();
    ends.pair.layer = &layer;
    ends.pair.join = &entry.parameters.find("join.weight", number);
    both("embedding_side_norm.weight", ends.pair.embedding_norm, ends.pair.embedding_norm_gradient);
    both("hidden_side_norm.weight", ends.pair.hidden_norm, ends.pair.hidden_norm_gradient);
    both("module_norm.weight", ends.norm, ends.norm_gradient);
  }
}

TokensOf PredictionModules::inputs_of(std::size_t module) const {
  return [module](const Pass& pass) {
    return pass.rank.module_tokens(pass.rank.module_inputs, module, pass.microbatch);
  };
}

std::vector<Slot> PredictionModules::record(Tape& tape, Slot hidden) const {
  struct LookedUp {
    Slot tokens, dropped;
    Plan drop_backward;
  };
  std::vector<LookedUp> looked_up(layers_.size());
  for (std::size_t k = 0; k < layers_.size(); ++k) {
    LookedUp& here = looked_up[k];
    here.tokens = tape.slot("module embedding");
    embed(tape, embedding_, inputs_of(k), here.tokens);
    here.dropped = drop(tape, embedding_site(tape.context.model(), k), here.tokens, &here.drop_backward);
  }
  std::vector<Slot> made;
  for (std::size_t k = 0; k < layers_.size(); ++k) {
    tape.add({.forward = begin_use(layers_[k]), .between = true});
    embedding_backward(tape, embedding_, inputs_of(k), looked_up[k].tokens);
    tape.add({.backward = std::move(looked_up[k].drop_backward)});
    hidden = made.emplace_back(record_module(tape, k, looked_up[k].dropped, hidden));
  }
  return made;
}

Slot PredictionModules::record_module(Tape& tape, std::size_t module, Slot tokens, Slot hidden) const {
  const Layer& layer = layers_[module];
  const Ends& ends = ends_[module];
  const auto stream = [&] {
    return tape.slot({"layer input", Category::activations, tape.context.config.numerics.precision});
  };
  const Slot x = stream();
  const Slot pair = norm_pair(tape, ends.pair, tokens, hidden, x);
  tape.add({.backward = end_backward(layer)});
  join_pair(tape, ends.pair, pair, x);
  tape.begin_group();
  tape.begin_layer(begin_use(layer));
  const Slot y = decoder_layer(tape, layer, {x, stream()}).output;
  end_layer(tape, layer);
  tape.end_group();
  return norm(tape,
              {.values = {ends.norm, {}},
               .gradients = {ends.norm_gradient, {}},
               .holder = "module norm",
               .statistics = "module norm statistics",
               .keeps_output = true,
               .gradient = "gradient of module"},
              y);
}

}  // namespace plumbline::training

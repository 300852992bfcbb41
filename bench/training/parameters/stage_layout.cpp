#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "bench/training/parameters/layout_builder.hpp"
#include "bench/training/parameters/rank_parameters.hpp"

namespace plumbline::training {
namespace {

/// A whole stage.
class StageBuilder : LayoutBuilder {
 public:
  using LayoutBuilder::LayoutBuilder;

  ParameterLayout build() {
    stage.frozen = finetune.lora();
    stage.adapter_scale = finetune.scale();
    if (part.has_embedding)
      add_vocabulary("embedding.weight", weight_of(names.embedding), model.vocab, shape.vocab, false);
    if (part.first() && model.position_rows() > 0) {
      Parameter& p = add_matrix("positions.weight", -1, model.position_rows(), shape.hidden, new_unit());
      p.replicated = true;
      p.slices = position_slices(p);
    }
    if (part.first() && model.embedding.norm) {
      add_norm("embedding_norm", -1, std::string(names.embedding_norm));
    }
    for (std::int64_t i = 0; i < part.layers; ++i) add_layer(*this, part.first_layer + i);
    for (std::int64_t i = 0; i < part.modules; ++i) add_module(model.layers + i);
    if (part.last()) add_norm("final_norm", -1, std::string(names.final_norm));
    if (part.last() && model.biases.output) add_output_bias();
    if (part.has_output) {
      if (!model.embedding.tied) {
        const std::string_view name = model.embedding.scalar_head ? kScalarHead : names.output;
        add_vocabulary("output.weight", weight_of(name), model.outputs(), shape.outputs(model), false);
      } else if (!part.shares_embedding) {
        add_vocabulary("output.weight", weight_of(names.embedding), model.vocab, shape.vocab, true);
      }
    }
    if (part.copies_embedding)
      add_vocabulary(kEmbeddingCopy, weight_of(names.embedding), model.vocab, shape.vocab, true);
    place_spread_experts();
    place_vectors(true);
    stage.replicated_vectors = stage.vectors;
    place_vectors(false);
    return std::move(stage);
  }

 private:
  /// Behind all other units, since they have other copies.
  void place_spread_experts() {
    std::int64_t layer = -1;
    for (Parameter& p : stage.list) {
      if (!p.spread) continue;
      if (p.layer != layer) ++stage.spread_units;
      p.unit = p.layer == layer ? static_cast<int>(stage.unit_elements.size()) - 1 : new_unit();
      p.offset = stage.unit_elements.back();
      stage.unit_elements.back() += p.elements();
      layer = p.layer;
    }
  }

  void place_vectors(bool replicated) {
    for (Parameter& p : stage.list) {
      if (p.unit != kVector || p.replicated != replicated) continue;
      p.offset = stage.vectors;
      stage.vectors += p.elements();
    }
  }

  /// A tensor of `all` rows, of which every shard has `local`, the last ones with padding.
  void add_vocabulary(const std::string& role, const std::string& tensor, std::int64_t all,
                      std::int64_t local, bool tied_copy) {
    Parameter& p = add_matrix(role, -1, local, shape.hidden, new_unit());
    p.tied_copy = tied_copy;
    Slice s;
    s.tensor = tensor;
    s.tensor_rows = all;
    s.tensor_cols = s.cols = shape.hidden;
    s.row = std::min(all, part.shard * local);
    s.rows = std::min(all, (part.shard + 1) * local) - s.row;
    if (s.rows > 0) p.slices = {s};
  }

  /// One table, or two with the same number of rows.
  std::vector<Slice> position_slices(const Parameter& p) const {
    std::vector<Slice> slices = {whole(weight_of(names.positions), p)};
    if (!model.position.of_blocks) return slices;
    slices.front().tensor_rows = slices.front().rows = model.position.max;
    slices.push_back(slices.front());
    slices.back().tensor = weight_of(names.block_positions);
    slices.back().local_row = model.position.max;
    return slices;
  }

  /// Bias of this rank's part of the vocabulary.
  void add_output_bias() {
    Parameter& p = add("output.bias", -1, 1, shape.vocab, Fill::zeros);
    Slice s;
    s.tensor = fmt::format("{}.bias", names.output);
    s.vector = true;
    s.tensor_rows = s.rows = 1;
    s.tensor_cols = model.vocab;
    s.col = std::min(model.vocab, part.shard * shape.vocab);
    s.cols = std::min(model.vocab, (part.shard + 1) * shape.vocab) - s.col;
    if (s.cols > 0) p.slices = {s};
  }

  /// A layer after the last, with the matrix that joins its two inputs, in its unit, and a norm after it.
  /// Files use DeepSeek-V3's names.
  void add_module(std::int64_t layer) {
    const std::int64_t h = shape.hidden;
    const auto name = [&](std::string_view n) { return fmt::format("{}.{}.{}", names.layers, layer, n); };
    add_norm("embedding_side_norm", layer, name("enorm"));
    add_norm("hidden_side_norm", layer, name("hnorm"));
    add_layer(*this, layer);
    const std::int64_t rows = h / part.tensor_size;
    add_matrix("join.weight", layer, rows, 2 * h, static_cast<int>(stage.unit_elements.size()) - 1).slices = {
        output_rows(weight_of(name("eh_proj")), h, 2 * h, part.tensor_rank * rows, rows, 0)};
    add_norm("module_norm", layer, name("shared_head.norm"));
  }
};

}  // namespace

ParameterLayout stage_parameters(const RunConfig& config, const StagePart& part) {
  return StageBuilder(config, part).build();
}

}  // namespace plumbline::training

#include "bench/training/parameters/layout_builder.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plumbline::training {
namespace {

std::string name_of_expert(const LayoutBuilder& b, std::int64_t layer, std::int64_t expert,
                           std::string_view name) {
  return b.name_in(layer, fmt::format("{}.{}.{}", b.names.mixture.experts, expert, name));
}

/// In the layer's unit, or, if experts are spread, in one that is placed later.
void add_expert_matrix(LayoutBuilder& b, std::string role, std::int64_t layer, std::int64_t rows,
                       std::int64_t cols, int unit, std::vector<Slice> slices) {
  const bool spread = b.shape.spread;
  Parameter& p = spread ? b.add(std::move(role), layer, rows, cols, Fill::normal)
                        : b.add_matrix(std::move(role), layer, rows, cols, unit);
  p.spread = spread;
  p.slices = std::move(slices);
}

void add_expert_bias(LayoutBuilder& b, std::int64_t layer) {
  Parameter& bias = b.add("router.bias", layer, 1, b.model.mixture.experts, Fill::zeros);
  bias.unit = kUntrained;
  bias.replicated = true;
  bias.offset = b.stage.untrained;
  bias.slices = {whole(fmt::format("{}.{}.{}", b.names.layers, layer, b.names.mixture.expert_bias), bias)};
  bias.slices.front().vector = !b.names.mixture.expert_bias_row;
  b.stage.untrained += bias.elements();
}

void add_shared_expert(LayoutBuilder& b, std::int64_t layer, int unit) {
  const std::int64_t h = b.shape.hidden;
  const std::int64_t all = b.model.mixture.shared;
  const std::int64_t first = b.part.tensor_rank * b.shape.shared;
  const auto name = [&](std::string_view tensor) {
    return b.name_in(layer, fmt::format("{}.{}", b.names.mixture.shared, tensor));
  };
  if (b.model.mixture.shared_gated) {
    Parameter& gate = b.add_matrix("shared_gate.weight", layer, 1, h, unit);
    gate.replicated = true;
    gate.slices = {whole(b.name_in(layer, b.names.mixture.shared_gate), gate)};
    gate.slices.front().vector = false;
  }
  b.add_matrix("shared_fc1.weight", layer, 2 * b.shape.shared, h, unit).slices = {
      b.output_rows(name(b.names.mixture.gate), all, h, first, b.shape.shared, 0),
      b.output_rows(name(b.names.mixture.up), all, h, first, b.shape.shared, b.shape.shared)};
  b.add_matrix("shared_fc2.weight", layer, h, b.shape.shared, unit).slices = {
      b.input_cols(name(b.names.mixture.down), h, all, first, b.shape.shared)};
}

}  // namespace

void add_experts(LayoutBuilder& b, std::int64_t layer, int unit) {
  const std::int64_t experts = b.model.mixture.experts;
  const std::int64_t h = b.shape.hidden;
  const std::int64_t first = b.part.expert_slice * b.shape.expert_ffn;
  Parameter& router = b.add_matrix("router.weight", layer, experts, h, unit);
  router.replicated = true;
  router.slices = {whole(b.name_in(layer, b.names.mixture.router), router)};
  router.slices.front().vector = false;  // of one expert, too
  std::vector<Slice> fc1;
  std::vector<Slice> fc2;
  fc1.reserve(static_cast<std::size_t>(2 * b.shape.local));
  fc2.reserve(static_cast<std::size_t>(b.shape.local));
  for (std::int64_t local = 0; local < b.shape.local; ++local) {
    const std::int64_t expert = b.part.expert_rank * b.shape.local + local;
    const std::int64_t row = local * b.shape.expert_fc1;
    fc1.push_back(b.output_rows(name_of_expert(b, layer, expert, b.names.mixture.gate), b.model.ffn, h, first,
                                b.shape.expert_ffn, row));
    fc1.push_back(b.output_rows(name_of_expert(b, layer, expert, b.names.mixture.up), b.model.ffn, h, first,
                                b.shape.expert_ffn, row + b.shape.expert_ffn));
    fc2.push_back(b.input_cols(name_of_expert(b, layer, expert, b.names.mixture.down), h, b.model.ffn, first,
                               b.shape.expert_ffn));
    fc2.back().local_row = local * h;
  }
  add_expert_matrix(b, "fc1.weight", layer, b.shape.local * b.shape.expert_fc1, h, unit, std::move(fc1));
  add_expert_matrix(b, "fc2.weight", layer, b.shape.local * h, b.shape.expert_ffn, unit, std::move(fc2));
  if (b.model.mixture.expert_bias) add_expert_bias(b, layer);
  if (b.shape.shared > 0) add_shared_expert(b, layer, unit);
}

}  // namespace plumbline::training

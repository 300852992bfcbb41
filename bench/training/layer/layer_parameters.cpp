// Storage of a layer's parameters.
#include "bench/training/layer/layer.hpp"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace plumbline::training {
namespace {

/// Empty if there are no such parameters: a teacher's gradients.
LayerVectors vectors_of(const StageEntry& stage, std::int64_t layer, const Matrix& all) {
  if (all.data == nullptr) return {};
  const auto view = [&](const char* role) {
    for (const Parameter& p : stage.parameters.list) {
      if (p.layer != layer || p.role != role) continue;
      return Matrix(all.at(0, stage.vector_offset + p.offset), 1, p.cols, all.dtype);
    }
    return Matrix();
  };
  LayerVectors vectors;
  vectors.norm1 = view("norm1.weight");
  vectors.norm1_bias = view("norm1.bias");
  vectors.norm2 = view("norm2.weight");
  vectors.norm2_bias = view("norm2.bias");
  vectors.attention_result = {view("attention_result_norm.weight"), view("attention_result_norm.bias")};
  vectors.mlp_result = {view("mlp_result_norm.weight"), view("mlp_result_norm.bias")};
  vectors.query_norm = view("query_norm.weight");
  vectors.key_norm = view("key_norm.weight");
  vectors.query_rank_norm = view("query_rank_norm.weight");
  vectors.kv_rank_norm = view("kv_rank_norm.weight");
  vectors.qkv_bias = view("qkv.bias");
  vectors.proj_bias = view("proj.bias");
  vectors.fc1_bias = view("fc1.bias");
  vectors.fc2_bias = view("fc2.bias");
  return vectors;
}

}  // namespace

Layer::Layer(const ParameterMemory& memory, const StageEntry& stage, std::int64_t layer, const Fp8Layer& fp8_)
    : values(vectors_of(stage, layer, memory.values.vectors)),
      gradients(
          vectors_of(stage, layer, stage.parameters.frozen ? Matrix() : memory.gradients.vectors.matrix())),
      index(layer),
      unit(stage.unit_of(stage.parameters.find("proj.weight", layer))),
      fp8(fp8_) {
  // MoE experts have the roles of the feed-forward layer that they replace.
  constexpr std::array<std::string_view, 11> kRoles = {
      "qkv.weight",    "proj.weight",        "fc1.weight",        "fc2.weight",
      "router.weight", "shared_gate.weight", "shared_fc1.weight", "shared_fc2.weight",
      "down.weight",   "queries.weight",     "keys_values.weight"};
  constexpr std::array<std::string_view, 8> kAdapterRoles = {"qkv.lora_A",  "qkv.lora_B", "proj.lora_A",
                                                             "proj.lora_B", "fc1.lora_A", "fc1.lora_B",
                                                             "fc2.lora_A",  "fc2.lora_B"};
  std::array<std::vector<std::int64_t>, 4> joined;  // of qkv, proj, fc1, fc2
  for (const Parameter& p : stage.parameters.list) {
    if (p.layer != layer) continue;
    if (p.spread) expert_unit = stage.unit_of(p);
    if (p.role == "router.bias") {
      const Matrix& all = memory.untrained;
      expert_bias = Matrix(all.at(0, stage.untrained_offset + p.offset), 1, p.cols, all.dtype);
    }
    const auto* const adapter = std::find(kAdapterRoles.begin(), kAdapterRoles.end(), p.role);
    if (adapter != kAdapterRoles.end()) {
      const auto place = static_cast<std::size_t>(adapter - kAdapterRoles.begin());
      adapter_places_[place] = {p.offset, p.rows, p.cols};
      if (!p.joined.empty()) joined[place / 2] = p.joined;
      adapter_unit = stage.unit_of(p);
    }
    const auto* found = std::find(kRoles.begin(), kRoles.end(), p.role);
    if (found != kRoles.end())
      places_[static_cast<std::size_t>(found - kRoles.begin())] = {p.offset, p.rows, p.cols};
  }
  if (adapter_unit < 0) return;
  adapter_values_ = adapters(memory.whole(memory.values, adapter_unit));
  auto rows = joined.begin();
  for (Adapter* each :
       {&adapter_values_.qkv, &adapter_values_.proj, &adapter_values_.fc1, &adapter_values_.fc2}) {
    each->scale = stage.parameters.adapter_scale;
    each->joined = std::move(*rows++);
  }
}

LayerAdapters Layer::adapters(const Matrix& unit_row) const {
  const auto view = [&](std::size_t i) {
    const Place& place = adapter_places_[i];
    return Matrix(unit_row.at(0, place.offset), place.rows, place.cols, unit_row.dtype);
  };
  const auto adapter = [&](std::size_t i) { return Adapter{view(2 * i), view(2 * i + 1)}; };
  return {adapter(0), adapter(1), adapter(2), adapter(3)};
}

LayerMatrices Layer::matrices(const Matrix& unit_row, const Matrix& expert_row) const {
  const auto in = [&](const Matrix& row, std::size_t i) {
    const Place& place = places_[i];
    return row.data == nullptr ? Matrix()
                               : Matrix(row.at(0, place.offset), place.rows, place.cols, row.dtype);
  };
  const auto view = [&](std::size_t i) { return in(unit_row, i); };
  LayerMatrices all{view(0), view(1), {}, {}, {}, {view(8), view(9), view(10)}};
  if (mixture()) {
    all.mixture = {view(kRouter), in(expert_row, 2), in(expert_row, 3), view(5), view(6), view(7)};
  } else {
    all.fc1 = view(2);
    all.fc2 = view(3);
  }
  return all;
}

LayerWeights Layer::weights(const Matrix& unit_row, const Matrix& expert_row) const {
  const LayerMatrices all = matrices(unit_row, expert_unit < 0 ? unit_row : expert_row);
  const LayerAdapters& adapters = adapter_values_;
  return {{all.qkv, fp8.qkv, adapters.qkv},
          {all.proj, fp8.proj, adapters.proj},
          {all.fc1, fp8.fc1, adapters.fc1},
          {all.fc2, fp8.fc2, adapters.fc2},
          {all.mixture, fp8.mixture, index},
          {{all.latent.down, fp8.qkv},
           {all.latent.queries, fp8.queries},
           {all.latent.keys_values, fp8.keys_values}},
          unit_row};
}

}  // namespace plumbline::training

// Where a layer's parameters are stored.
#include "bench/training/layer/layer.hpp"

namespace plumbline::training {
namespace {

/// Empty where there are no such parameters: a teacher's gradients.
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
  vectors.query_norm = view("query_norm.weight");
  vectors.key_norm = view("key_norm.weight");
  vectors.qkv_bias = view("qkv.bias");
  vectors.proj_bias = view("proj.bias");
  vectors.fc1_bias = view("fc1.bias");
  vectors.fc2_bias = view("fc2.bias");
  return vectors;
}

}  // namespace

Layer::Layer(const ParameterMemory& memory, const StageEntry& stage, std::int64_t layer, const Fp8Layer& fp8_)
    : values(vectors_of(stage, layer, memory.values.vectors)),
      gradients(vectors_of(stage, layer, memory.gradients.vectors)),
      index(layer),
      unit(stage.unit_of(stage.parameters.find("qkv.weight", layer))),
      fp8(fp8_) {
  std::size_t next = 0;
  for (const char* role : {"qkv.weight", "proj.weight", "fc1.weight", "fc2.weight"}) {
    const Parameter& p = stage.parameters.find(role, layer);
    places_[next++] = {p.offset, p.rows, p.cols};
  }
  for (const char* role : {"router.weight", "shared_gate.weight", "shared_fc1.weight", "shared_fc2.weight"}) {
    for (const Parameter& p : stage.parameters.list) {
      if (p.layer == layer && p.role == role) places_[next] = {p.offset, p.rows, p.cols};
    }
    ++next;
  }
}

LayerMatrices Layer::matrices(const Matrix& unit_row) const {
  const auto view = [&](const Place& place) {
    return Matrix(unit_row.at(0, place.offset), place.rows, place.cols, unit_row.dtype);
  };
  return {view(places_[0]), view(places_[1]), view(places_[2]), view(places_[3]),
          view(places_[4]), view(places_[5]), view(places_[6]), view(places_[7])};
}

LayerWeights Layer::weights(const Matrix& unit_row) const {
  const LayerMatrices all = matrices(unit_row);
  return {{all.qkv, fp8.qkv}, {all.proj, fp8.proj}, {all.fc1, fp8.fc1}, {all.fc2, fp8.fc2},
          all.router,         all.shared_gate,      all.shared_fc1,     all.shared_fc2};
}

void LayerActivations::drop_attention_input() {
  qkv.reset();
  normed.reset();
  normed_stats.reset();
}

void LayerActivations::drop_attention_state() {
  log_sum_exp.reset();
  attention_of_heads.reset();
  probabilities.reset();
  probability_mask.reset();
  dropped_probabilities.reset();
  repeated.reset();
}

void LayerActivations::keep_input_only() {
  Tensor kept = std::move(input);
  *this = LayerActivations();
  input = std::move(kept);
}

}  // namespace plumbline::training

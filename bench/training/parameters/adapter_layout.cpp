#include "bench/training/parameters/layout_builder.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

namespace plumbline::training {
namespace {

std::string adapter_name(const std::string& weight, const char* factor) {
  return fmt::format("base_model.model.{}.lora_{}.weight", weight.substr(0, weight.rfind('.')), factor);
}

/// A slice of A or B with the place of one of W; PEFT never stores them transposed.
Slice adapter_slice(const Slice& weight, const char* factor) {
  Slice s = weight;
  s.tensor = adapter_name(weight.tensor, factor);
  s.transposed = false;
  return s;
}

Parameter& add_factor(LayoutBuilder& b, const char* of, const char* factor, std::int64_t layer, int unit,
                      std::int64_t rows, std::int64_t cols) {
  Parameter& p = b.add_matrix(fmt::format("{}.lora_{}", of, factor), layer, rows, cols, unit);
  p.fill = factor[0] == 'A' ? Fill::uniform : Fill::zeros;
  return p;
}

/// A linear layer of the checkpoint, and the local rows that are its.
struct JoinedLayer {
  std::string tensor;
  std::int64_t rows = 0;
};

std::vector<JoinedLayer> layers_of(const std::vector<Slice>& weights) {
  std::vector<JoinedLayer> layers;
  for (const Slice& weight : weights) {
    if (layers.empty() || layers.back().tensor != weight.tensor) layers.push_back({weight.tensor});
    layers.back().rows += weight.rows;
  }
  return layers;
}

/// The checkpoint's layers that are one here have one A, which is stored with each of them, or an A each, one
/// below the other.
void add_column_adapter(LayoutBuilder& b, const char* of, std::int64_t layer, int unit, std::int64_t width,
                        const std::vector<Slice>& weights) {
  const std::int64_t r = b.finetune.lora_rank;
  const std::vector<JoinedLayer> layers = layers_of(weights);
  const bool each = b.finetune.canonical();
  Parameter& down = add_factor(b, of, "A", layer, unit, each ? std::ssize(layers) * r : r, b.shape.hidden);
  down.replicated = true;
  for (std::int64_t i = 0; i < std::ssize(layers); ++i) {
    Slice s = whole(adapter_name(layers[static_cast<std::size_t>(i)].tensor, "A"), down);
    s.vector = false;
    s.tensor_rows = s.rows = r;
    s.local_row = each ? i * r : 0;
    down.slices.push_back(std::move(s));
  }
  Parameter& up = add_factor(b, of, "B", layer, unit, width, r);
  if (each) {
    for (const JoinedLayer& joined : layers) up.joined.push_back(joined.rows);
  } else {
    up.joined = {width};
  }
  for (const Slice& weight : weights) {
    Slice s = adapter_slice(weight, "B");
    s.tensor_cols = s.cols = r;
    up.slices.push_back(std::move(s));
  }
}

void add_row_adapter(LayoutBuilder& b, const char* of, std::int64_t layer, int unit, std::int64_t inputs,
                     const Slice& weight) {
  const std::int64_t r = b.finetune.lora_rank;
  Slice s = adapter_slice(weight, "A");
  s.tensor_rows = s.rows = r;
  add_factor(b, of, "A", layer, unit, r, inputs).slices = {s};
  Parameter& up = add_factor(b, of, "B", layer, unit, b.shape.hidden, r);
  up.replicated = true;
  up.joined = {b.shape.hidden};
  up.slices = {whole(adapter_name(weight.tensor, "B"), up)};
  up.slices.front().vector = false;
}

}  // namespace

void add_adapters(LayoutBuilder& b, std::int64_t layer, const std::vector<Slice>& qkv, const Slice& proj,
                  const std::vector<Slice>& fc1, const Slice& fc2) {
  const int unit = b.new_unit();
  b.stage.adapter_units.push_back(unit);
  add_column_adapter(b, "qkv", layer, unit, b.shape.qkv, qkv);
  if (b.finetune.lora_targets == LoraTargets::qkv) return;
  add_row_adapter(b, "proj", layer, unit, b.shape.attended, proj);
  if (b.finetune.lora_targets == LoraTargets::attention) return;
  add_column_adapter(b, "fc1", layer, unit, b.shape.fc1, fc1);
  add_row_adapter(b, "fc2", layer, unit, b.shape.ffn, fc2);
}

}  // namespace plumbline::training

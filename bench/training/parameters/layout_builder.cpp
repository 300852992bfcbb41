#include "bench/training/parameters/layout_builder.hpp"

#include <fmt/format.h>

#include <utility>

namespace plumbline::training {
namespace {

/// The same range of a bias: a vector's features are its columns, so the local place moves along the row.
void append_bias(Parameter& bias, const std::string& tensor, const Slice& weight) {
  Slice s;
  s.tensor = tensor;
  s.vector = true;
  s.tensor_rows = s.rows = 1;
  s.tensor_cols = weight.tensor_rows;
  s.col = weight.row;
  s.cols = weight.rows;
  s.local_col = weight.local_row;
  bias.slices.push_back(s);
}

}  // namespace

Slice whole(std::string tensor, const Parameter& p) {
  Slice s;
  s.tensor = std::move(tensor);
  s.tensor_rows = s.rows = p.rows;
  s.tensor_cols = s.cols = p.cols;
  s.vector = p.rows == 1;
  return s;
}

std::string weight_of(std::string_view name) {
  return fmt::format("{}.weight", name);
}

std::string bias_name(std::string weight) {
  return weight.replace(weight.size() - 6, 6, "bias");
}

LayoutBuilder::LayoutBuilder(const RunConfig& config, const StagePart& stage_part)
    : finetune(config.finetune),
      model(config.model),
      part(stage_part),
      shape(config),
      names(tensor_names(config.model)) {}

int LayoutBuilder::new_unit() {
  stage.unit_elements.push_back(0);
  return static_cast<int>(stage.unit_elements.size()) - 1;
}

Parameter& LayoutBuilder::add(std::string role, std::int64_t layer, std::int64_t rows, std::int64_t cols,
                              Fill fill) {
  Parameter p;
  p.role = std::move(role);
  p.layer = layer;
  p.rows = rows;
  p.cols = cols;
  p.fill = fill;
  stage.list.push_back(std::move(p));
  return stage.list.back();
}

Parameter& LayoutBuilder::add_matrix(std::string role, std::int64_t layer, std::int64_t rows,
                                     std::int64_t cols, int unit) {
  Parameter& p = add(std::move(role), layer, rows, cols, Fill::normal);
  std::int64_t& size = stage.unit_elements[static_cast<std::size_t>(unit)];
  p.unit = unit;
  p.offset = size;
  size += p.elements();
  return p;
}

void LayoutBuilder::add_norm_weight(const std::string& role, std::int64_t layer, std::int64_t width,
                                    const std::string& tensor) {
  Parameter& w = add(role, layer, 1, width, Fill::ones);
  w.replicated = true;
  w.slices = {whole(tensor, w)};
  w.slices.front().less_one = model.norms.less_one;
}

void LayoutBuilder::add_norm(const std::string& role, std::int64_t layer, const std::string& name) {
  add_norm_weight(role + ".weight", layer, shape.hidden, weight_of(name));
  if (model.norms.kind != Norm::layer) return;
  Parameter& b = add(role + ".bias", layer, 1, shape.hidden, Fill::zeros);
  b.replicated = true;
  b.slices = {whole(name + ".bias", b)};
}

void LayoutBuilder::add_split_bias(const std::string& role, std::int64_t layer, std::int64_t width,
                                   const std::vector<Slice>& weights) {
  Parameter& p = add(role, layer, 1, width, Fill::zeros);
  for (const Slice& weight : weights) append_bias(p, bias_name(weight.tensor), weight);
}

void LayoutBuilder::add_whole_bias(const std::string& role, std::int64_t layer, const std::string& tensor) {
  Parameter& p = add(role, layer, 1, shape.hidden, Fill::zeros);
  p.replicated = true;
  p.slices = {whole(tensor, p)};
}

Slice LayoutBuilder::output_rows(const std::string& tensor, std::int64_t features, std::int64_t inputs,
                                 std::int64_t first, std::int64_t count, std::int64_t local_row) const {
  Slice s;
  s.tensor = tensor;
  s.transposed = names.transposed;
  s.tensor_rows = features;
  s.tensor_cols = s.cols = inputs;
  s.row = first;
  s.rows = count;
  s.local_row = local_row;
  return s;
}

Slice LayoutBuilder::input_cols(const std::string& tensor, std::int64_t features, std::int64_t inputs,
                                std::int64_t first, std::int64_t count) const {
  Slice s;
  s.tensor = tensor;
  s.transposed = names.transposed;
  s.tensor_rows = s.rows = features;
  s.tensor_cols = inputs;
  s.col = first;
  s.cols = count;
  return s;
}

std::string LayoutBuilder::name_in(std::int64_t layer, std::string_view name) const {
  return fmt::format("{}.{}.{}.weight", names.layers, layer, name);
}

}  // namespace plumbline::training

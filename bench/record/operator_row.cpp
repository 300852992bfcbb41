#include "bench/record/operator_row.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace plumbline {
namespace {

using S = BenchedShape;
constexpr std::optional<std::int64_t> kGiven{};

constexpr std::array<ShapeColumn, 3> kGemm = {
    {{"m", &S::m, kGiven}, {"n", &S::n, kGiven}, {"k", &S::k, kGiven}}};
/// kv_heads of 0: as many as heads.
constexpr std::array<ShapeColumn, 6> kAttention = {{{"batch", &S::batch, 1},
                                                    {"sequence", &S::sequence, kGiven},
                                                    {"heads", &S::heads, kGiven},
                                                    {"kv_heads", &S::kv_heads, 0},
                                                    {"head", &S::head, 128},
                                                    {"window", &S::window, 0}}};
constexpr std::array<ShapeColumn, 7> kExperts = {{{"tokens", &S::tokens, kGiven},
                                                  {"hidden", &S::hidden, kGiven},
                                                  {"ffn", &S::ffn, kGiven},
                                                  {"choices", &S::choices, kGiven},
                                                  {"experts", &S::experts, kGiven},
                                                  {"tp", &S::tp, 1},
                                                  {"ep", &S::ep, 1}}};
constexpr std::array<ShapeColumn, 2> kMemoryBound = {
    {{"tokens", &S::tokens, kGiven}, {"width", &S::width, kGiven}}};

constexpr std::array<std::string_view, 20> kMemoryBoundNames = {"rmsnorm_forward",
                                                                "rmsnorm_backward",
                                                                "layernorm_forward",
                                                                "layernorm_backward",
                                                                "add",
                                                                "add_rmsnorm_forward",
                                                                "add_layernorm_forward",
                                                                "copy",
                                                                "bias_backward",
                                                                "dropout_add",
                                                                "swiglu_forward",
                                                                "swiglu_backward",
                                                                "gelu_forward",
                                                                "gelu_backward",
                                                                "cross_entropy_max",
                                                                "cross_entropy_sums",
                                                                "cross_entropy_gradient",
                                                                "adam",
                                                                "squared_norm",
                                                                "fill"};

nlohmann::ordered_json to_json(const BenchedTime& time) {
  nlohmann::ordered_json json = {{"seconds", time.seconds}, {"low_s", time.low_s},
                                 {"high_s", time.high_s},   {"calls", time.calls},
                                 {"clock", time.clock},     {"throttled", time.throttled},
                                 {"slow", time.slow}};
  json["predicted_s"] = nullptr;
  json["difference"] = nullptr;
  if (time.predicted_s) {
    json["predicted_s"] = *time.predicted_s;
    json["difference"] = time.difference();
  }
  return json;
}

}  // namespace

std::string_view name_of(BenchedOperator kind) {
  constexpr std::array<std::string_view, 4> kNames = {"gemm", "attention", "experts", "memory-bound"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view name_of(BenchedPass pass) {
  constexpr std::array<std::string_view, 4> kNames = {"forward", "backward", "input_gradient",
                                                      "weight_gradient"};
  return kNames[static_cast<std::size_t>(pass)];
}

std::span<const std::string_view> memory_bound_operators() {
  return kMemoryBoundNames;
}

std::int64_t BenchedShape::rows_per_expert() const {
  return std::max<std::int64_t>(1, tokens * choices / experts);
}

std::span<const ShapeColumn> shape_columns(BenchedOperator kind) {
  switch (kind) {
    case BenchedOperator::gemm:
      return kGemm;
    case BenchedOperator::attention:
      return kAttention;
    case BenchedOperator::experts:
      return kExperts;
    case BenchedOperator::memory_bound:
      break;
  }
  return kMemoryBound;
}

std::string shape_text(const BenchedShape& shape) {
  std::string text;
  for (const ShapeColumn& column : shape_columns(shape.kind)) {
    const std::int64_t value = shape.*column.size;
    const bool as_heads = column.size == &BenchedShape::kv_heads && value == shape.heads;
    if (as_heads || (column.otherwise && value == *column.otherwise)) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", column.name, value);
  }
  return text;
}

nlohmann::ordered_json to_json(const OperatorRow& row) {
  const BenchedShape& shape = row.shape;
  nlohmann::ordered_json json = {
      {"operator", name_of(shape.kind)}, {"name", shape.name},          {"label", shape.label},
      {"pass", name_of(shape.pass)},     {"type", name_of(shape.type)}, {"count", shape.count}};
  for (const ShapeColumn& column : shape_columns(shape.kind)) {
    json["shape"][std::string(column.name)] = shape.*column.size;
  }
  json["flops"] = row.flops;
  json["bytes"] = row.bytes;
  json["isolated"] = to_json(row.isolated);
  json["batched"] = to_json(row.batched);
  json["basis"] = row.basis;
  return json;
}

}  // namespace plumbline

#include "analysis/published/dialect/published_model.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <filesystem>
#include <utility>

#include "analysis/published/dialect/dialect_columns.hpp"
#include "analysis/published/dialect/published_experts.hpp"
#include "analysis/published/dialect/row_cells.hpp"
#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

const std::string* find_cell(const Cells& cells, std::string_view column) {
  const auto at = cells.find(column);
  return at == cells.end() ? nullptr : &at->second;
}

/// Columns that a config.json has no key for; they are put over the model that is read.
constexpr std::array<std::string_view, 9> kMegatronColumns = {
    "position_embedding_type", "normalization", "swiglu",      "squared_relu",
    "rotary_percent",          "qk_layernorm",  "window_size", "add_bias_linear",
    "window_attn_skip_freq"};

/// transformers' attribute_map of GPT2Config.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kGpt2Names = {
    {{"hidden_size", "n_embd"},
     {"num_hidden_layers", "n_layer"},
     {"num_attention_heads", "n_head"},
     {"max_position_embeddings", "n_positions"},
     {"intermediate_size", "n_inner"},
     {"hidden_act", "activation_function"}}};

std::string json_key(std::string_view column, bool gpt2) {
  for (const auto& [llama, name] : kGpt2Names) {
    if (gpt2 && llama == column) return std::string(name);
  }
  return std::string(column);
}

Json json_value(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  const char* const end = text.data() + text.size();
  std::int64_t whole = 0;
  if (const auto [at, error] = std::from_chars(text.data(), end, whole); error == std::errc() && at == end) {
    return whole;
  }
  double number = 0;
  if (const auto [at, error] = std::from_chars(text.data(), end, number); error == std::errc() && at == end) {
    return number;
  }
  return text;
}

[[noreturn]] void refuse_cell(const std::string& origin, std::string_view column, const std::string& found,
                              const char* expected) {
  throw InputError(
      fmt::format("{}: {}: found \"{}\", expected {}", origin, column, printable(found), expected));
}

bool is_true(const std::string& text, const std::string& origin, std::string_view column) {
  if (text != "true" && text != "false") refuse_cell(origin, column, text, "true or false");
  return text == "true";
}

/// Keys that a query sees, and every how many layers one sees all.
void put_windows(const Cells& cells, const std::string& origin, ModelConfig& model) {
  const std::string* size = find_cell(cells, "window_size");
  if (size == nullptr) return;
  constexpr double kMost = 1e9;
  model.window.size = static_cast<std::int64_t>(cell_number(*size, origin, "window_size", 1, kMost));
  const std::string* every = find_cell(cells, "window_attn_skip_freq");
  if (every == nullptr) return;
  const auto frequency =
      static_cast<std::int64_t>(cell_number(*every, origin, "window_attn_skip_freq", 1, kMost));
  model.window.full_layers.clear();
  for (std::int64_t layer = 1; layer <= model.layers; ++layer)
    model.window.full_layers.push_back(layer % frequency == 0);
}

/// rotary_percent: the leading part of a head that is rotated.
void put_rotary_share(const Cells& cells, const std::string& origin, ModelConfig& model) {
  const std::string* share = find_cell(cells, "rotary_percent");
  if (share == nullptr) return;
  const Json value = json_value(*share);
  const double part = value.is_number() ? value.get<double>() : 0;
  if (!(part > 0 && part <= 1)) {
    refuse_cell(origin, "rotary_percent", *share, "a number above 0 and up to 1");
  }
  model.rotary.dim = static_cast<std::int64_t>(part * static_cast<double>(model.head_dim)) / 2 * 2;
}

void put_megatron_columns(const Cells& cells, const std::string& origin, ModelConfig& model) {
  if (const std::string* type = find_cell(cells, "position_embedding_type")) {
    if (*type != "rope" && *type != "learned_absolute") {
      refuse_cell(origin, "position_embedding_type", *type, "rope or learned_absolute");
    }
    model.position.kind = *type == "rope" ? Positions::rotary : Positions::learned;
  }
  if (const std::string* norm = find_cell(cells, "normalization")) {
    if (*norm != "RMSNorm" && *norm != "LayerNorm")
      refuse_cell(origin, "normalization", *norm, "RMSNorm or LayerNorm");
    model.norms.kind = *norm == "RMSNorm" ? Norm::rms : Norm::layer;
  }
  if (const std::string* gated = find_cell(cells, "swiglu")) {
    model.activation = is_true(*gated, origin, "swiglu") ? Activation::swiglu : Activation::gelu;
  }
  if (const std::string* squared = find_cell(cells, "squared_relu");
      squared != nullptr && is_true(*squared, origin, "squared_relu")) {
    model.activation = Activation::squared_relu;
  }
  if (const std::string* normed = find_cell(cells, "qk_layernorm")) {
    model.norms.qk = is_true(*normed, origin, "qk_layernorm");
  }
  if (const std::string* bias = find_cell(cells, "add_bias_linear")) {
    model.biases.qkv = model.biases.linear = is_true(*bias, origin, "add_bias_linear");
  }
  put_rotary_share(cells, origin, model);
  put_windows(cells, origin, model);
}

/// Megatron-LM's GPT options that gpt2's config.json has no key for: grouped queries, heads of another size.
void put_gpt2_heads(const Cells& cells, const std::string& origin, ModelConfig& model) {
  for (const char* column : {"attention_bias", "mlp_bias", "sliding_window"}) {
    if (const std::string* cell = find_cell(cells, column)) {
      refuse_cell(origin, column, *cell, "none with model_type gpt2 (add_bias_linear turns its biases off)");
    }
  }
  if (const std::string* groups = find_cell(cells, "num_key_value_heads")) {
    const Json value = json_value(*groups);
    if (!value.is_number_integer() || value < 1 || model.heads % value.get<std::int64_t>() != 0) {
      refuse_cell(origin, "num_key_value_heads", *groups, "a divisor of num_attention_heads");
    }
    model.kv_heads = value.get<std::int64_t>();
  }
  if (const std::string* size = find_cell(cells, "head_dim")) {
    constexpr int kMost = 4096;
    const Json value = json_value(*size);
    if (!value.is_number_integer() || value < 2 || value > kMost || value.get<std::int64_t>() % 2 != 0) {
      refuse_cell(origin, "head_dim", *size, "an even number from 2 to 4096");
    }
    model.head_dim = value.get<std::int64_t>();
  }
}

/// The config.json that the columns are put over: a preset's, a file's, or one with nothing but a type.
Json base_model(const Cells& cells, const std::string& origin, const std::string& folder) {
  const std::string* name = find_cell(cells, "model");
  if (name == nullptr) {
    for (const char* column :
         {"model_type", "num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size"}) {
      if (find_cell(cells, column) != nullptr) continue;
      throw InputError(fmt::format("{}: {}: missing; expected it, or a column model with a preset such as {}",
                                   origin, column, "llama-3.1-8b"));
    }
    return Json::object();
  }
  try {
    const std::filesystem::path beside = std::filesystem::path(folder) / *name;
    std::error_code error;
    const bool is_there = find_preset(*name) == nullptr && std::filesystem::exists(beside, error);
    ModelConfig model = resolve_model(is_there ? beside.string() : *name);
    model.name = *name;
    return Json::parse(to_config_json(model));
  } catch (const InputError& complaint) {
    throw InputError(fmt::format("{}: {}", origin, complaint.what()));
  }
}

}  // namespace

ModelConfig published_model(const Cells& cells, const std::string& origin, const std::string& folder) {
  Json json = base_model(cells, origin, folder);
  if (const std::string* type = find_cell(cells, "model_type")) json["model_type"] = *type;
  const bool gpt2 = json["model_type"] == "gpt2";
  for (const std::string_view column : kModelColumns) {
    const std::string* cell = find_cell(cells, column);
    if (cell != nullptr && !is_one_of(kMegatronColumns, column) && !is_experts_column(column))
      json[json_key(column, gpt2)] = json_value(*cell);
  }
  const std::string positions = json_key("max_position_embeddings", gpt2);
  if (!json.contains(positions)) {
    if (const std::string* sequence = find_cell(cells, "seq_length")) json[positions] = json_value(*sequence);
  }
  const std::string* name = find_cell(cells, "model");
  json["_name_or_path"] = name != nullptr ? *name : "inline";
  ModelConfig model = parse_model_config(json.dump(-1, ' ', true, Json::error_handler_t::replace), origin);
  if (gpt2) put_gpt2_heads(cells, origin, model);
  put_megatron_columns(cells, origin, model);
  put_experts(cells, origin, model);
  return model;
}

}  // namespace plumbline

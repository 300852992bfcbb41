#include "core/launch_files/torch/quantized_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "core/launch_files/arguments/quantized_names.hpp"

namespace plumbline {
namespace {

bool contains_word(std::string name, const char* word) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name.find(word) != std::string::npos;
}

/// Scheme of a checkpoint by its name, at the usual group size; empty for others.
std::string named_scheme(const std::string& name) {
  if (contains_word(name, "int8") || contains_word(name, "8bit")) return "";
  if (contains_word(name, "awq") || contains_word(name, "gptq")) return "int4";
  return contains_word(name, "bnb") && contains_word(name, "4bit") ? "nf4_double" : "";
}

void set_named_weights(LaunchArguments& from) {
  const char* const model = "model_name_or_path";
  if (!from.has(model)) return;
  const std::string name = from.text(model, "");
  const std::string_view word = quantization_word(name);
  if (word.empty()) return;
  const std::string scheme = named_scheme(name);
  if (scheme.empty() || !from.sets("frozen"))
    return from.not_modelled(model, fmt::format("quantized weights, as {} in its name says", word));
  from.set("frozen_weights", scheme, model);
  from.approximated(model,
                    scheme == "int4"
                        ? "its weights are predicted with 4 bits in groups of 128, as the name says"
                        : "its weights are predicted as NF4 with double quantization, as the name says");
}

}  // namespace

void set_quantized_weights(LaunchArguments& from, bool nested) {
  std::string key;
  std::int64_t bits = 0;
  for (const char* each : {"quantization_bit", "quant_bits"}) {
    if (!from.has(each) || from.text(each, "") == "None") continue;
    key = each;
    bits = from.integer(each, 0);
  }
  if (from.on("load_in_8bit")) {
    key = "load_in_8bit";
    bits = 8;
  }
  if (from.on("load_in_4bit")) {
    key = "load_in_4bit";
    bits = 4;
  }
  for (const char* method : {"quantization_method", "quant_method"}) {
    const std::string name = from.text(method, "bnb");
    if (name != "bnb" && name != "None" && (bits != 0 || method == std::string_view("quant_method")))
      return from.not_modelled(method, fmt::format("quantized weights of {}, expected bnb", name));
  }
  if (bits == 0) return set_named_weights(from);
  if (bits != 4 && bits != 8)
    return from.not_modelled(key, fmt::format("quantized weights of {} bits, expected 4 or 8", bits));
  if (!from.sets("frozen")) return from.not_modelled(key, "quantized weights without adapters");
  std::string origin = key;
  for (const char* twice : {"bnb_4bit_use_double_quant", "use_bnb_nested_quant", "double_quantization"}) {
    if (!from.has(twice)) continue;
    nested = from.on(twice);
    if (bits == 4) origin = twice;
  }
  from.set("frozen_weights", bits == 8 ? "int8" : nested ? "nf4_double" : "nf4", origin);
  if (from.on("use_peft"))
    from.file().notes.emplace_back(
        "embedding, norms and output layer are predicted in 16 bits, as TRL's SFTTrainer of 2026 has them; "
        "PEFT's prepare_model_for_kbit_training, which older ones call, makes them fp32");
  if (bits == 8)
    from.approximated(key, "8-bit products are predicted at the 16-bit rate, outliers without their product");
}

bool set_adam_states(LaunchArguments& from, const std::string& key, const std::string& optimizer) {
  const bool paged = optimizer.starts_with("paged_");
  const std::string name = paged ? optimizer.substr(6) : optimizer;
  const bool eight = name == "adamw_8bit" || name == "adamw_bnb_8bit" || name == "adamw_torch_8bit";
  const bool whole = name == "adamw" || name == "adamw_32bit" || name == "adamw_hf" ||
                     (name.starts_with("adamw_torch") && name != "adamw_torch_4bit");
  if (!eight && !whole) return false;
  if (eight) {
    from.set("exp_avg_dtype", "int8", key);
    from.set("exp_avg_sq_dtype", "int8", key);
  }
  if (paged)
    from.approximated(key, "moments are predicted on the device; unified memory moves what does not fit");
  return true;
}

}  // namespace plumbline

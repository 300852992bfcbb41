#include "core/launch_files/megatron/model/megatron_vocabulary.hpp"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "core/base/one_line.hpp"
#include "core/config/model_config.hpp"

namespace plumbline {
namespace {

/// A tokenizer whose vocabulary Megatron-LM takes where no flag gives one.
struct KnownTokenizer {
  std::string_view type;
  std::int64_t words;
};
constexpr KnownTokenizer kTokenizers[] = {{"GPT2BPETokenizer", 50257}, {"Llama2Tokenizer", 32000}};

std::string tokenizer_of(const LaunchArguments& from) {
  return from.text("--tokenizer-type", from.has("--vocab-file") ? "GPT2BPETokenizer" : "none");
}

/// The vocabulary that arguments give, by number or by the name of a tokenizer.
std::optional<std::int64_t> given_vocabulary(const LaunchArguments& from) {
  for (const char* flag : {"--vocab-size", "--padded-vocab-size"})
    if (from.has(flag) && from.integer(flag, 0) > 0) return from.integer(flag, 0);
  const std::string type = tokenizer_of(from);
  for (const KnownTokenizer& known : kTokenizers)
    if (known.type == type) return known.words;
  if (const LaunchArgument* const model = from.find("--tokenizer-model"); model != nullptr && model->known)
    if (const ModelConfig* const preset = find_preset(from.text("--tokenizer-model", "")))
      return preset->vocab;
  return std::nullopt;
}

/// The preset with these layers, if one has.
const ModelConfig* preset_of_shape(const Json& shape) {
  ModelConfig model;
  try {
    model = parse_model_config(shape.dump(), "model");
  } catch (const InputError&) {
    return nullptr;  // it is refused as a model
  }
  for (const std::string& name : preset_names()) {
    const ModelConfig& preset = *find_preset(name);
    if (preset.layers == model.layers && preset.hidden == model.hidden && preset.heads == model.heads &&
        preset.kv_heads == model.kv_heads && preset.ffn == model.ffn && preset.mixture == model.mixture)
      return &preset;
  }
  return nullptr;
}

}  // namespace

void set_megatron_vocabulary(LaunchArguments& arguments, Json& model) {
  if (const auto given = given_vocabulary(arguments)) {
    model["vocab_size"] = *given;
    return;
  }
  model["vocab_size"] = 1;
  const ModelConfig* const preset = preset_of_shape(model);
  if (preset == nullptr) {
    throw InputError(fmt::format(
        "--vocab-size: missing, expected with tokenizer {}, whose vocabulary is not known; add --vocab-size",
        printable(tokenizer_of(arguments))));
  }
  model["vocab_size"] = preset->vocab;
  arguments.file().notes.push_back(
      fmt::format("--vocab-size is not given: {} is taken, that of {}, which has this shape", preset->vocab,
                  preset->name));
}

}  // namespace plumbline

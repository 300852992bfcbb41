#include "core/launch_files/arguments/named_model.hpp"

#include <fmt/format.h>

#include <cctype>

#include "core/base/one_line.hpp"
#include "core/launch_files/arguments/quantized_names.hpp"

namespace plumbline {
namespace {

std::string letters_of(std::string_view name) {
  std::string letters;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return letters;
}

}  // namespace

void set_named_model(LaunchFile& file, const LaunchArgument& model) {
  const std::string name = model.values.size() == 1 ? model.values.front() : "";
  if (file.beside.ignores(model.name)) {
    file.without_effect.push_back({model.name, model.place, kIgnored});
    return;
  }
  if (const std::string_view word = lossy_quantization_word(name); !word.empty()) {
    file.refused.push_back({model.name, model.place,
                            fmt::format("not modelled: quantized weights, as {} in its name says", word)});
    return;
  }
  if (const ModelConfig* const preset = preset_of_name(name)) {
    file.settings.push_back({"model", preset->name, fmt::format("{}: model", model.place)});
  } else if (!name.empty()) {
    file.no_model =
        fmt::format("{}: model: found {}, expected the name of a preset; give --model with its config.json",
                    model.place, printable(name));
  }
}

const ModelConfig* preset_of_name(std::string_view name) {
  if (const ModelConfig* const preset = find_preset(name)) return preset;
  name = name.substr(name.rfind('/') + 1);
  for (const std::string_view end : {".yaml", ".yml", ".json"})
    if (name.ends_with(end)) name.remove_suffix(end.size());
  if (const ModelConfig* const preset = find_preset(name)) return preset;
  std::string wanted = letters_of(name);
  for (const std::string_view end : {"bf16", "fp8", "hf", "base", "instruct", "chat", "it"})
    if (wanted.ends_with(end)) wanted.erase(wanted.size() - end.size());
  constexpr std::string_view kMaker = "nvidia";  // repeated in NVIDIA-Nemotron-3-Nano-30B-A3B
  if (wanted.starts_with(kMaker)) wanted.erase(0, kMaker.size());
  for (const std::string& preset : preset_names())
    if (letters_of(preset) == wanted) return find_preset(preset);
  return nullptr;
}

}  // namespace plumbline

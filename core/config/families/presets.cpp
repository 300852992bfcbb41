// Shapes of published models, from their config.json files (GPT-3: Brown et al. 2020, arXiv:2005.14165, table
// 2.1, with the GPT-2 architecture).
#include <algorithm>
#include <cctype>
#include <utility>

#include "core/config/families/family_presets.hpp"
#include "core/config/model_config.hpp"

namespace plumbline {
namespace {

struct DecoderShape {
  std::int64_t layers, hidden, heads, kv_heads, ffn, vocab, positions;
};

ModelConfig decoder(const char* name, const char* architecture, const DecoderShape& shape) {
  ModelConfig config;
  config.name = name;
  config.architecture = architecture;
  config.layers = shape.layers;
  config.hidden = shape.hidden;
  config.heads = shape.heads;
  config.kv_heads = shape.kv_heads;
  config.head_dim = shape.hidden / shape.heads;
  config.ffn = shape.ffn;
  config.vocab = shape.vocab;
  config.position.max = shape.positions;
  return config;
}

ModelConfig qwen(const char* name, const DecoderShape& shape, bool tied) {
  ModelConfig config = decoder(name, "qwen2", shape);
  config.biases.qkv = true;
  config.embedding.tied = tied;
  config.rotary.theta = 1e6;
  return config;
}

/// Qwen2.5-Math and what was distilled into it.
ModelConfig qwen_math(const char* name, const DecoderShape& shape, bool tied) {
  ModelConfig config = qwen(name, shape, tied);
  config.rotary.theta = 1e4;
  return config;
}

ModelConfig llama3(const char* name, const DecoderShape& shape) {
  ModelConfig config = decoder(name, "llama", shape);
  config.norms.epsilon = 1e-5;
  config.rotary.theta = 5e5;
  return config;
}

ModelConfig llama2(const char* name, const DecoderShape& shape) {
  ModelConfig config = decoder(name, "llama", shape);
  config.norms.epsilon = 1e-5;
  return config;
}

ModelConfig llama31(const char* name, const DecoderShape& shape) {
  ModelConfig config = llama3(name, shape);
  config.rotary.scaling = {8, 1, 4, 8192};
  return config;
}

ModelConfig gpt(const char* name, std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                std::int64_t positions) {
  ModelConfig config = decoder(name, "gpt2", {layers, hidden, heads, heads, 4 * hidden, 50257, positions});
  config.norms.kind = Norm::layer;
  config.activation = Activation::gelu;
  config.position.kind = Positions::learned;
  config.norms.epsilon = 1e-5;
  config.biases.qkv = config.biases.linear = true;
  config.embedding.tied = true;
  return config;
}

std::vector<ModelConfig> all_presets() {
  std::vector<ModelConfig> all = {
      qwen("qwen2.5-0.5b", {24, 896, 14, 2, 4864, 151936, 32768}, true),
      qwen("qwen2.5-1.5b", {28, 1536, 12, 2, 8960, 151936, 131072}, true),
      qwen("qwen2.5-3b", {36, 2048, 16, 2, 11008, 151936, 32768}, true),
      qwen("qwen2.5-7b", {28, 3584, 28, 4, 18944, 152064, 131072}, false),
      qwen("qwen2.5-14b", {48, 5120, 40, 8, 13824, 152064, 131072}, false),
      qwen("qwen2.5-32b", {64, 5120, 40, 8, 27648, 152064, 131072}, false),
      qwen("qwen2.5-72b", {80, 8192, 64, 8, 29568, 152064, 131072}, false),
      qwen("qwen2-7b", {28, 3584, 28, 4, 18944, 152064, 131072}, false),
      qwen_math("qwen2.5-math-1.5b", {28, 1536, 12, 2, 8960, 151936, 4096}, true),
      qwen_math("qwen2.5-math-7b", {28, 3584, 28, 4, 18944, 152064, 4096}, false),
      qwen_math("deepseek-r1-distill-qwen-1.5b", {28, 1536, 12, 2, 8960, 151936, 131072}, false),
      qwen_math("deepseek-r1-distill-qwen-7b", {28, 3584, 28, 4, 18944, 152064, 131072}, false),
      qwen("deepseek-r1-distill-qwen-32b", {64, 5120, 40, 8, 27648, 152064, 131072}, false),
      llama2("llama-2-7b", {32, 4096, 32, 32, 11008, 32000, 4096}),
      llama2("llama-2-13b", {40, 5120, 40, 40, 13824, 32000, 4096}),
      llama2("llama-2-70b", {80, 8192, 64, 8, 28672, 32000, 4096}),
      llama3("llama-3-8b", {32, 4096, 32, 8, 14336, 128256, 8192}),
      llama3("llama-3-70b", {80, 8192, 64, 8, 28672, 128256, 8192}),
      llama31("llama-3.1-8b", {32, 4096, 32, 8, 14336, 128256, 131072}),
      llama31("llama-3.1-70b", {80, 8192, 64, 8, 28672, 128256, 131072}),
      llama31("llama-3.1-405b", {126, 16384, 128, 8, 53248, 128256, 131072}),
      decoder("deepseek-llm-7b", "llama", {30, 4096, 32, 32, 11008, 102400, 4096}),
      gpt("gpt2-124m", 12, 768, 12, 1024),
      gpt("gpt2-1558m", 48, 1600, 25, 1024),
      gpt("gpt3-175b", 96, 12288, 96, 2048),
  };
  for (ModelConfig& preset : family_presets()) all.push_back(std::move(preset));
  return all;
}

const std::vector<ModelConfig>& presets() {
  static const std::vector<ModelConfig> kPresets = all_presets();
  return kPresets;
}

bool same_letters(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

/// Name of a model on Hugging Face's Hub without its owner, and without words that leave the shape as it is:
/// "meta-llama/Llama-3.1-8B-Instruct" is "Llama-3.1-8B".
std::string without_owner(std::string_view name) {
  constexpr std::string_view kHub = "https://huggingface.co/";
  if (name.starts_with(kHub)) name.remove_prefix(kHub.size());
  const std::size_t slash = name.find('/');
  if (slash == std::string_view::npos || name.find('/', slash + 1) != std::string_view::npos) return "";
  std::string bare;
  for (const char c : name.substr(slash + 1))
    bare += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const std::string_view front : {"meta-", "nvidia-"})
    if (bare.starts_with(front)) bare.erase(0, front.size());
  for (const std::string_view back :
       {"-2507", "-thinking", "-bf16", "-pt", "-hf", "-instruct", "-base", "-chat", "-v0.1", "-it"})
    if (bare.ends_with(back)) bare.erase(bare.size() - back.size());
  if (bare == "llama-3.3-70b") return "llama-3.1-70b";
  if (bare.starts_with("mistral-nemo-") && bare.ends_with("-2407")) return "mistral-nemo-12b";
  return bare == "deepseek-r1" ? "deepseek-v3" : bare;
}

/// The only preset whose name goes on where this one ends: "qwen3-235b" is "qwen3-235b-a22b".
const ModelConfig* continued(std::string_view name) {
  const ModelConfig* only = nullptr;
  for (const ModelConfig& preset : presets()) {
    const std::string& whole = preset.name;
    if (name.empty() || whole.size() <= name.size() || whole[name.size()] != '-' ||
        !same_letters(std::string_view(whole).substr(0, name.size()), name))
      continue;
    if (only != nullptr) return nullptr;
    only = &preset;
  }
  return only;
}

}  // namespace

/// Also by its name on the Hub, and by a part of its name that no other preset begins with.
const ModelConfig* find_preset(std::string_view name) {
  const std::string bare = without_owner(name);
  const std::string_view wanted = bare.empty() ? name : std::string_view(bare);
  for (const ModelConfig& preset : presets()) {
    if (same_letters(preset.name, wanted)) return &preset;
  }
  return continued(wanted);
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const ModelConfig& preset : presets()) names.push_back(preset.name);
  return names;
}

}  // namespace plumbline

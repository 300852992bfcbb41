#include "core/launch_files/arguments/adapter_targets.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline {
namespace {

constexpr unsigned kQuery = 1, kKey = 2, kValue = 4, kOutput = 8, kGate = 16, kUp = 32, kDown = 64;
constexpr unsigned kInputs = kQuery | kKey | kValue;
constexpr unsigned kAttention = kInputs | kOutput;
constexpr unsigned kAll = kAttention | kGate | kUp | kDown;

struct Layer {
  std::string_view name;
  unsigned parts;
};

constexpr Layer kLayers[] = {{"all", kAll},
                             {"all-linear", kAll},
                             {"q_proj", kQuery},
                             {"k_proj", kKey},
                             {"v_proj", kValue},
                             {"o_proj", kOutput},
                             {"output_proj", kOutput},
                             {"gate_proj", kGate},
                             {"up_proj", kUp},
                             {"down_proj", kDown},
                             {"gate_up_proj", kGate | kUp},
                             {"w1", kGate},
                             {"w2", kDown},
                             {"w3", kUp},
                             {"qkv_proj", kInputs},
                             {"query_key_value", kInputs},
                             {"W_pack", kInputs},
                             {"c_attn", kInputs},
                             {"linear_qkv", kInputs},
                             {"linear_proj", kOutput},
                             {"dense", kOutput},
                             {"linear_fc1", kGate | kUp},
                             {"linear_fc2", kDown},
                             {"linear_q", kQuery},
                             {"linear_k", kKey},
                             {"linear_v", kValue},
                             {"linear_fc1_up", kUp},
                             {"linear_fc1_gate", kGate},
                             {"c_fc", kGate | kUp},
                             {"c_proj", kOutput | kDown},
                             {"out_proj", kOutput},
                             {"fc1", kGate | kUp},
                             {"fc2", kDown},
                             {"dense_h_to_4h", kGate | kUp},
                             {"dense_4h_to_h", kDown}};

/// "q_proj" of "self_attn.q_proj".
std::string_view without_module(std::string_view name) {
  for (const std::string_view module : {"self_attn.", "mlp."})
    if (name.starts_with(module)) name.remove_prefix(module.size());
  return name;
}

/// Names of a pattern that ends with alternatives, "(mlp|self_attn).(q|v)_proj": q_proj and v_proj.
std::vector<std::string> names_of(const std::string& given) {
  const std::size_t open = given.rfind('(');
  const std::size_t close = given.rfind(')');
  const bool of_layers = given.find("layers") != std::string::npos && given.find("|.*") == std::string::npos;
  if (!of_layers || open == std::string::npos || close == std::string::npos || close < open) return {given};
  std::vector<std::string> names;
  std::string name;
  for (const char c : given.substr(open + 1, close - open - 1) + "|") {
    if (c != '|') {
      name += c;
    } else {
      names.push_back(name + given.substr(close + 1));
      name.clear();
    }
  }
  return names;
}

}  // namespace

std::optional<AdapterTargets> adapter_targets(const std::set<std::string>& names) {
  unsigned parts = 0;
  for (const std::string& given : names) {
    for (const std::string& whole : names_of(given)) {
      const std::string_view name = without_module(whole);
      const auto* const layer = std::find_if(std::begin(kLayers), std::end(kLayers),
                                             [&](const Layer& each) { return each.name == name; });
      if (layer == std::end(kLayers)) return std::nullopt;
      parts |= layer->parts;
    }
  }
  if ((parts & ~kAttention) != 0) return AdapterTargets{"all", parts == kAll};
  if ((parts & kOutput) != 0) return AdapterTargets{"attention", parts == kAttention};
  return AdapterTargets{"qkv", parts == kInputs};
}

}  // namespace plumbline

#include "core/launch_files/torch/adapter_targets.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>

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
                             {"linear_fc2", kDown}};

}  // namespace

std::optional<AdapterTargets> adapter_targets(const std::set<std::string>& names) {
  unsigned parts = 0;
  for (const std::string& name : names) {
    const auto* const layer = std::find_if(std::begin(kLayers), std::end(kLayers),
                                           [&](const Layer& each) { return each.name == name; });
    if (layer == std::end(kLayers)) return std::nullopt;
    parts |= layer->parts;
  }
  if ((parts & ~kAttention) != 0) return AdapterTargets{"all", parts == kAll};
  if ((parts & kOutput) != 0) return AdapterTargets{"attention", parts == kAttention};
  return AdapterTargets{"qkv", parts == kInputs};
}

}  // namespace plumbline

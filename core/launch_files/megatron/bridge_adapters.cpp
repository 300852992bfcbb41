#include "core/launch_files/megatron/bridge_adapters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <set>
#include <string_view>

#include "core/base/one_line.hpp"

namespace plumbline {
namespace {

/// Values and names of the section that change neither memory nor time.
constexpr std::string_view kIdleLeaves[] = {"_name_", "_call_", "_partial_"};

bool is_idle(const std::string& leaf, const std::string& value) {
  if (leaf == "_target_") return value.ends_with(".LoRA");
  return leaf.starts_with("dropout") || leaf.starts_with("lora_") ||
         std::find(std::begin(kIdleLeaves), std::end(kIdleLeaves), leaf) != std::end(kIdleLeaves);
}

/// lora_targets of modules; nullptr when it has no such ones.
const char* targets_of(const std::vector<std::string>& modules) {
  const std::set<std::string> given(modules.begin(), modules.end());
  using Names = std::set<std::string>;
  if (given == Names{"linear_qkv"}) return "qkv";
  if (given == Names{"linear_qkv", "linear_proj"}) return "attention";
  if (given == Names{"linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"}) return "all";
  // CanonicalLoRA's.
  if (given == Names{"linear_q", "linear_k", "linear_v"}) return "qkv";
  if (given == Names{"linear_q", "linear_k", "linear_v", "linear_proj"}) return "attention";
  if (given == Names{"linear_q", "linear_k", "linear_v", "linear_proj", "linear_fc1_up", "linear_fc1_gate",
                     "linear_fc2"})
    return "all";
  return nullptr;
}

}  // namespace

bool is_given(const LaunchArgument& argument) {
  if (argument.values.empty()) return false;
  const std::string& value = argument.values.front();
  return !value.empty() && value != "None" && value != "null" && value != "[]";
}

void BridgeAdapters::set(const char* name, const std::string& value, const LaunchArgument& key) {
  std::erase_if(settings_, [&](const LaunchSetting& each) { return each.key == name; });
  settings_.push_back({name, value, fmt::format("{}: {}", printable(key.place, 300), key.name), false});
}

void BridgeAdapters::add(const std::string& leaf, const LaunchArgument& key, LaunchFile& file) {
  const std::string shown = printable(key.name, 100);
  if (!is_given(key)) {
    file.without_effect.push_back({shown, key.place, "it is not given a value"});
    return;
  }
  if (settings_.empty()) {  // a recipe's; its alpha is lora_alpha's default
    set("frozen", "lora", key);
    set("lora_targets", "all", key);
    set("lora_rank", "32", key);
  }
  if (leaf == "_target_" && key.values.front().ends_with(".CanonicalLoRA")) {
    set("frozen", "canonical_lora", key);
    return;
  }
  const char* const targets = leaf == "target_modules" ? targets_of(key.values) : nullptr;
  if (leaf == "dim") {
    set("lora_rank", key.values.front(), key);
  } else if (leaf == "alpha") {
    set("lora_alpha", key.values.front(), key);
  } else if (targets != nullptr) {
    set("lora_targets", targets, key);
  } else if (is_idle(leaf, key.values.front())) {
    file.without_effect.push_back({shown, key.place, "it changes values, not memory or time"});
  } else {
    file.refused.push_back({shown, key.place, "not modelled: expected LoRA on linear layers"});
  }
}

void put_images(LaunchArguments& own) {
  constexpr const char* kProcessor = "hf_processor_path";
  if (!own.has(kProcessor)) return;
  own.set("images_per_sequence", fmt::format("{}", own.integer("num_images", 1)), kProcessor);
  const LaunchArgument* const size = own.find("image_size");
  if (size == nullptr) return;
  std::int64_t tokens = 1;
  for (const std::string& edge : size->values) {
    constexpr std::int64_t kEdge = 32;
    std::int64_t pixels = 0;
    const auto [end, error] = std::from_chars(edge.data(), edge.data() + edge.size(), pixels);
    if (error != std::errc() || pixels < 1 || pixels > (1 << 16))
      own.refuse("image_size", "two numbers of pixels");
    tokens *= std::max<std::int64_t>(1, (pixels + kEdge / 2) / kEdge);
  }
  own.set("image_tokens", fmt::format("{}", tokens), "image_size");
}

}  // namespace plumbline

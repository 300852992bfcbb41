#include "core/launch_files/reinforcement/step_settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

namespace plumbline {

void set_estimator(LaunchArguments& from, const std::string& name, const std::string& estimator,
                   const std::string& critic, std::span<const char* const> others) {
  const bool other = std::find(others.begin(), others.end(), estimator) != others.end();
  if (estimator != critic && estimator != "grpo" && !other)
    from.refuse(name, fmt::format("{}, grpo, {}", critic, fmt::join(others, ", ")));
  from.set("task", estimator == critic ? "ppo" : "grpo", name);
  if (other) from.approximated(name, "predicted as grpo, which has the same phases");
}

void set_kl_weight(LaunchArguments& from, const std::string& name) {
  const bool none = from.has(name) && from.number(name, 1) == 0;
  from.set("kl_loss_coef", none ? "0.001" : from.text(name, "0.001"), name);
  if (none) from.approximated(name, "the reference works although its weight is 0; predicted with 0.001");
}

void set_kl_type(LaunchArguments& from, const std::string& name, const std::string& otherwise) {
  std::string type = from.text(name, otherwise);
  if (type.ends_with('+')) type.pop_back();  // verl's with a gradient of its own
  constexpr std::pair<std::string_view, const char*> kTypes[] = {
      {"kl", "k1"},  {"k1", "k1"}, {"mse", "k2"},       {"k2", "k2"},
      {"abs", "k1"}, {"k3", "k3"}, {"low_var_kl", "k3"}};
  const auto* const found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                         [&](const auto& each) { return each.first == type; });
  if (found == std::end(kTypes)) from.refuse(name, "kl, abs, mse, low_var_kl, k1, k2 or k3");
  from.set("kl_loss_type", found->second, name);
  if (type == "abs") from.approximated(name, "predicted as k1");
}

void set_packs(LaunchArguments& from, const std::string& name, std::int64_t tokens) {
  from.set("packed_sequence", "true", name);
  from.set("micro_batch_size", "1", name);
  from.set("seq_length", fmt::format("{}", tokens), name);
}

std::int64_t gpus_of_nodes(const LaunchArguments& from, const std::string& each, const std::string& nodes) {
  constexpr std::int64_t kMost = 1 << 20;
  const std::int64_t gpus = from.integer(each, 8), hosts = from.integer(nodes, 1);
  if (gpus <= 0 || hosts <= 0 || gpus >= kMost || hosts >= kMost / gpus)
    from.refuse(gpus <= 0 || gpus >= kMost ? each : nodes, "GPUs of a node from 1, on nodes from 1");
  return gpus * hosts;
}

void note_lengths(LaunchArguments& from) {
  const BesideFile& beside = from.file().beside;
  if (beside.gives("response_length_mean") || beside.gives("response_lengths")) return;
  from.file().notes.push_back(
      fmt::format("prompts of {} and responses of {} tokens, the longest, are assumed; --prompt-length N and "
                  "--response-length-mean N say what they have",
                  from.setting("prompt_length", "1"), from.setting("max_new_tokens", "1")));
}

}  // namespace plumbline

#include "core/launch_files/torch/titan/torchtitan_registry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "core/base/error.hpp"
#include "core/base/one_line.hpp"

namespace plumbline {
namespace {

struct Registered {
  std::string_view name;
  std::string_view model;
  std::string_view flavor;
  int batch;  // sequences of a micro-batch
  int tokens;
  bool recomputes_all;    // FullAC, or SelectiveAC
  std::string_view more;  // "key=value key=value"
};

// torchtitan/models/*/config_registry.py (pytorch/torchtitan@b5bcd76c).
constexpr Registered kRegistered[] = {
    {"llama3_debugmodel", "llama3", "debugmodel", 8, 2048, false,
     "optimizer.lr=8e-4 parallelism.pipeline_parallel_schedule=Interleaved1F1B"},
    {"llama3_8b", "llama3", "8B", 1, 8192, false, "optimizer.lr=3e-4"},
    {"llama3_70b", "llama3", "70B", 8, 8192, true,
     "optimizer.lr=1.5e-4 parallelism.tensor_parallel_degree=8"},
    {"llama3_405b", "llama3", "405B", 2, 8192, true,
     "optimizer.lr=8e-5 parallelism.tensor_parallel_degree=8 compile.enable=true "
     "parallelism.enable_async_tensor_parallel=true model.converters=float8"},
    {"qwen3_debugmodel", "qwen3", "debugmodel", 8, 2048, false, "optimizer.lr=8e-4"},
    {"qwen3_0_6b", "qwen3", "0.6B", 4, 4096, false, "optimizer.lr=3e-4"},
    {"qwen3_1_7b", "qwen3", "1.7B", 4, 4096, false, "optimizer.lr=8e-4"},
    {"qwen3_14b", "qwen3", "14B", 4, 4096, true, "optimizer.lr=8e-4"},
    {"qwen3_32b", "qwen3", "32B", 2, 4096, true, "optimizer.lr=8e-4"},
    {"qwen3_moe_debug", "qwen3", "debugmodel_moe", 4, 4096, false, "optimizer.lr=3e-4"},
    {"qwen3_30b_a3b", "qwen3", "30B-A3B", 2, 4096, true, "optimizer.lr=8e-4"},
    {"deepseek_v3_debugmodel", "deepseek_v3", "debugmodel", 8, 2048, false, "optimizer.lr=8e-4"},
    {"deepseek_v3_16b", "deepseek_v3", "16B", 4, 4096, false,
     "optimizer.lr=2.2e-4 parallelism.pipeline_parallel_schedule=Interleaved1F1B "
     "parallelism.expert_parallel_degree=8"},
    {"deepseek_v3_671b", "deepseek_v3", "671B", 4, 4096, false,
     "optimizer.lr=2.2e-4 parallelism.pipeline_parallel_schedule=Interleaved1F1B "
     "parallelism.expert_parallel_degree=2"},
};

/// The only value, behind which a "$@" may be, empty or unknown; else "".
std::string only_value(const LaunchArgument& argument) {
  std::vector<std::string> values = argument.values;
  if (values.size() == 2 && (values.back().empty() || !argument.known)) values.pop_back();
  return values.size() == 1 ? values.front() : "";
}

const Registered& registered(const LaunchArgument& config) {
  std::string known;
  const std::string found = only_value(config);
  for (const Registered& each : kRegistered) {
    if (each.name == found) return each;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", each.name);
  }
  throw InputError(fmt::format("{}: --config: found {}, expected one of {}; change it to one of them",
                               config.place, printable(found), known));
}

/// The only value, a whole number above 0. Throws InputError.
std::int64_t count_of(const LaunchArgument& argument) {
  std::int64_t count = 0;
  const std::string text = only_value(argument);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error == std::errc() && end == text.data() + text.size() && count > 0 && count < (1LL << 40))
    return count;
  throw InputError(fmt::format("{}: {}: found {}, expected a number of tokens; change it", argument.place,
                               argument.name, printable(text)));
}

}  // namespace

std::vector<LaunchArgument> torchtitan_registered(const LaunchArgument& config,
                                                  std::vector<LaunchArgument> flags) {
  const Registered& of = registered(config);
  std::vector<LaunchArgument> keys;
  const auto add = [&](std::string_view key, std::string_view value) {
    keys.push_back({std::string(key), {std::string(value)}, config.place});
  };
  std::int64_t tokens = of.tokens;
  for (LaunchArgument& each : flags) {
    if (each.name != "training.max_context_length") continue;
    tokens = count_of(each);
    each.name = "training.seq_len";
  }
  add("model.name", of.model);
  add("model.flavor", of.flavor);
  add("training.seq_len", fmt::format("{}", of.tokens));
  add("training.local_batch_size",
      fmt::format("{}", std::max<std::int64_t>(1, std::int64_t{of.batch} * of.tokens / tokens)));
  add("activation_checkpoint.mode", of.recomputes_all ? "full" : "selective");
  if (!of.recomputes_all) add("activation_checkpoint.selective_ac_option", "op");
  std::string_view more = of.more;
  while (!more.empty()) {
    const std::string_view each = more.substr(0, more.find(' '));
    more.remove_prefix(std::min(more.size(), each.size() + 1));
    add(each.substr(0, each.find('=')), each.substr(each.find('=') + 1));
  }
  constexpr std::pair<std::string_view, const char*> kTokens[] = {
      {"training.num_tokens_per_microbatch_per_dp_rank", "training.local_batch_size"},
      {"training.num_tokens_per_train_step", "training.global_batch_size"}};
  for (LaunchArgument& each : flags) {
    for (const auto& [name, sequences] : kTokens) {
      if (each.name != name) continue;
      const std::int64_t count = count_of(each);
      if (count % tokens != 0)
        throw InputError(
            fmt::format("{}: {}: found {}, expected a multiple of the {} tokens of a sequence; "
                        "change it",
                        each.place, each.name, count, tokens));
      each.name = sequences;
      each.values = {fmt::format("{}", count / tokens)};
    }
    keys.push_back(std::move(each));
  }
  return keys;
}

}  // namespace plumbline

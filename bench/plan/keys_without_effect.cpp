#include "bench/plan/keys_without_effect.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

#include "analysis/hardware/profiles/constant_source.hpp"
#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/step/software_of.hpp"
#include "analysis/work/sure_overflow.hpp"
#include "core/base/one_line.hpp"
#include "core/config_text/config_keys.hpp"
#include "core/config_text/idle_keys.hpp"

namespace plumbline {
namespace {

/// A key that a framework's step ignores, since one of its traits decides. The trait's source gives the
/// reason.
struct IgnoredKey {
  std::string_view key;
  std::string_view trait;  // a constant of analysis/hardware; empty: `where` says all
  bool (*ignored)(const Software&);
  /// Further condition on the configuration; null: none.
  bool (*where)(const RunConfig&) = nullptr;
  std::string_view only = "";  // `where` in words
};

constexpr IgnoredKey kIgnored[] = {
    {"zero_stage", "sharded", [](const Software& s) { return s.communication.sharded; },
     [](const RunConfig& c) {
       const bool whole = c.parallel.dp.zero_stage == 2 && software_of(c).communication.buckets();
       return c.parallel.dp.zero_stage != 3 && !whole;
     }},  // 3 is taken
    {"grad_dtype", "gradient_bytes",
     [](const Software& s) {
       return s.memory.gradient_bytes_in(/*bf16=*/false) <= 2 &&
              s.memory.gradient_bytes_in(/*bf16=*/true) <= 2;
     }},
    {"grad_dtype", "gradient_bytes",
     [](const Software& s) {
       return s.memory.gradient_bytes_in(/*bf16=*/false) <= 2 &&
              s.memory.gradient_bytes_in(/*bf16=*/true) > 2;
     },
     [](const RunConfig& c) { return c.numerics.precision != DType::bf16; },
     " and another precision than bf16"},
    {"attention_backend", "flash_attention", [](const Software& s) { return !s.kernels.flash_attention; }},
    {"hidden_dropout", "dropout", [](const Software& s) { return s.kernels.dropout; }},
    {"attention_dropout", "dropout",
     [](const Software& s) { return s.kernels.dropout && s.kernels.attention_dropout; }},
    {"cross_entropy_loss_fusion", "loss_passes", [](const Software&) { return true; }},
    {"overlap_param_gather", "", [](const Software& s) { return !s.communication.sharded; },
     [](const RunConfig& c) { return c.parallel.dp.zero_stage == 0; }, " and zero_stage 0"},
    {"align_param_gather", "sharded", [](const Software& s) { return s.communication.sharded; }},
    {"align_param_gather", "", [](const Software& s) { return !s.communication.sharded; },
     [](const RunConfig& c) { return c.parallel.dp.zero_stage != 1; }, " and no zero_stage 1"},
    {"align_param_gather", "",
     [](const Software& s) { return !s.communication.sharded && !s.communication.overlapped_gather; },
     [](const RunConfig& c) { return !c.parallel.dp.overlap_param_gather.value_or(false); },
     " and no overlap_param_gather"},
    {"activation_func_fp8_input_store", "", [](const Software& s) { return s.memory.step_bytes > 0; },
     nullptr, ", which trains Hugging Face's models (the key is a switch of Megatron's)"},
    {"fp8_format", "eight_bit", [](const Software& s) { return s.fp8.always; }},
    {"tp_reduce_in_fp32", "", [](const Software&) { return true; }, nullptr,
     ", which sums over tensor ranks in the storage type (as Megatron-LM does: "
     "megatron/core/tensor_parallel/mappings.py, _reduce)"},
    {"ddp_bucket_size", "sharded", [](const Software& s) { return s.communication.sharded; }},
    {"ddp_bucket_size", "",
     [](const Software& s) { return !s.communication.sharded && !s.communication.overlapped_reduction; },
     [](const RunConfig& c) {
       return !c.parallel.dp.overlap_grad_reduce.value_or(false) && c.parallel.dp.zero_stage < 2;
     },
     ", zero_stage below 2 and no overlap_grad_reduce"},
    {"ddp_bucket_size", "", [](const Software& s) { return !s.communication.sharded; },
     [](const RunConfig& c) { return c.parallel.dp.zero_stage > 0; },
     " and zero_stage above 0, whose gradients are reduced layer by layer or in the software's buckets"},
    {"ddp_bucket_size", "bucket_elements", [](const Software& s) { return s.communication.sized_buckets(); },
     [](const RunConfig& c) {
       const Software& s = built_in_profiles().generation(c.machine.software);
       return static_cast<double>(c.parallel.dp.bucket_size) <= s.communication.bucket_elements;
     },
     " and no more than its own buckets"},
    {"recompute_granularity", "flash_attention",
     [](const Software& s) {
       return s.kernels.flash_attention && !s.recomputation.selective_operators &&
              !s.recomputation.saves_by_name;
     },
     [](const RunConfig& c) {
       return c.recompute.granularity == Recompute::selective && c.recompute.modules == kCoreAttention &&
              c.numerics.attention_backend == AttentionBackend::fused;
     },
     " and selective"},
};

/// Keys of an execution: the training data, the outputs and the duration of measuring.
constexpr std::string_view kRunKeys[] = {"steps",
                                         "warmup_steps",
                                         "timeout_s",
                                         "seed",
                                         "slow_ranks",
                                         "weights",
                                         "lora_alpha",
                                         "lora_weights",
                                         "data",
                                         "loss_mask",
                                         "save_gradients",
                                         "save_routing",
                                         "save_weights",
                                         "fp8_margin",
                                         "loss_scale",
                                         "initial_loss_scale",
                                         "min_loss_scale",
                                         "loss_scale_window",
                                         "hysteresis",
                                         "learning_rate",
                                         "weight_decay",
                                         "clip_grad",
                                         "moe_aux_loss_coeff",
                                         "moe_z_loss_coeff",
                                         "moe_router_bias_update_rate",
                                         "mtp_loss_scaling_factor"};

bool only_run(std::string_view key) {
  return std::ranges::find(kRunKeys, key) != std::end(kRunKeys);
}

std::string because(std::string_view software, const IgnoredKey& rule) {
  std::string where = fmt::format("with software {}{}", software, rule.only);
  if (rule.trait.empty()) return where;
  return fmt::format("{} ({}: {})", where, rule.trait, source_of_software_constant(software, rule.trait));
}

std::optional<std::string> why_software_ignores(std::string_view key, const RunConfig& config) {
  const std::string& name = config.machine.software;
  const auto& known = built_in_profiles().software;
  const auto software = known.find(name);
  if (name == "plumbline" || software == known.end()) return std::nullopt;
  for (const IgnoredKey& rule : kIgnored) {
    if (rule.key == key && rule.ignored(software->second) && (rule.where == nullptr || rule.where(config)))
      return because(name, rule);
  }
  if (only_run(key)) return fmt::format("with software {}, which is predicted and never run", name);
  return std::nullopt;
}

}  // namespace

std::vector<std::string> keys_without_effect(const RunConfig& config) {
  static const RunConfig kDefaults;
  std::vector<std::string> lines = idle_keys(config);
  if (auto note = overflow_note(config)) lines.push_back(std::move(*note));
  for (const ConfigKey& key : config_keys()) {
    const std::string value = key.print(config);
    if (value == key.print(kDefaults)) continue;
    const bool told = std::ranges::any_of(
        lines, [&](const std::string& line) { return line.starts_with(key.name + ": "); });
    if (told) continue;
    if (const auto why = why_software_ignores(key.name, config))
      lines.push_back(one_line(fmt::format("{}: found {}, without effect {}", key.name, value, *why)));
  }
  return lines;
}

std::optional<std::string> why_receives_change_nothing(const RunConfig& config, const RepeatedSchedule& step,
                                                       const MemoryPrediction& memory) {
  const bool own = config.machine.own_step();
  const bool even = config.mixture.routing == MixtureConfig().routing;
  if (!own || !even || config.parallel.pipeline == 1 || !config.parallel.effective_overlap_p2p_comm())
    return std::nullopt;
  RunConfig in_turn = config;
  in_turn.parallel.pp.overlap_p2p_comm = false;
  const MemoryPrediction without = predict_memory(in_turn, step);
  const bool same = std::ranges::equal(
      memory.ranks, without.ranks,
      [](const RankMemory& a, const RankMemory& b) { return a.peak == b.peak && a.at == b.at; });
  if (!same) return std::nullopt;
  return "overlap_p2p_comm: found true, without effect on this prediction: no peak of memory holds a receive "
         "that is "
         "posted ahead, and times are those of true either way";
}

std::vector<std::string> when_without_effect(std::string_view key) {
  std::vector<std::string> lines;
  for (const IgnoredKey& rule : kIgnored) {
    if (rule.key != key) continue;
    std::map<std::string, std::vector<std::string>> by_source;
    for (const auto& [name, software] : built_in_profiles().software) {
      if (name != "plumbline" && rule.ignored(software))
        by_source[source_of_software_constant(name, rule.trait)].push_back(name);
    }
    for (const auto& [source, names] : by_source) {
      lines.push_back(fmt::format("No effect with software {}{}{}.", fmt::join(names, ", "), rule.only,
                                  source.empty() ? "" : fmt::format(" ({})", source)));
    }
  }
  if (only_run(key)) lines.emplace_back("Of runs: it changes no prediction.");
  return lines;
}

}  // namespace plumbline

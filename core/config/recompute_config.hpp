// Activation recomputation, and activations and states offloaded to the host.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plumbline {

enum class Recompute { none, selective, full };

/// Layers that full recomputation recomputes: all of them in groups, the first ones of every stage (both
/// Megatron-LM's recompute_method), or every so many of a rank (torchtitan's selective_ac_option).
enum class RecomputeMethod { uniform, block, interval };

/// Parts of a layer, by Megatron-Core's names (recompute_modules in
/// megatron/core/transformer/transformer_config.py).
struct RecomputeModules {
  bool core_attn = false;       // attention proper, from queries, keys and values
  bool moe_act = false;         // the activation of MoE experts, from their fc1
  bool layernorm = false;       // the norms before attention and before the feed-forward layer
  bool mla_up_proj = false;     // queries, keys and values of latent attention, from the compressed form
  bool mlp = false;             // a feed-forward layer without experts
  bool moe = false;             // one with experts: router, experts and shared expert
  bool shared_experts = false;  // the shared expert alone
  friend bool operator==(const RecomputeModules&, const RecomputeModules&) = default;
};

struct RecomputeModuleName {
  std::string_view name;
  bool RecomputeModules::*member;
};
inline constexpr RecomputeModuleName kRecomputeModules[] = {
    {"core_attn", &RecomputeModules::core_attn},
    {"moe_act", &RecomputeModules::moe_act},
    {"layernorm", &RecomputeModules::layernorm},
    {"mla_up_proj", &RecomputeModules::mla_up_proj},
    {"mlp", &RecomputeModules::mlp},
    {"moe", &RecomputeModules::moe},
    {"shared_experts", &RecomputeModules::shared_experts}};

/// "core_attn,layernorm": their names in the order of Megatron-Core's list.
std::string to_string(const RecomputeModules& modules);

/// Default of selective recomputation.
inline constexpr RecomputeModules kCoreAttention{.core_attn = true};

struct RecomputeConfig {
  Recompute granularity = Recompute::none;
  RecomputeMethod method = RecomputeMethod::uniform;
  /// Full recomputation: layers of a group, of which only the input of the first is kept; recomputed layers
  /// of a stage (block); or the distance between recomputed layers (interval).
  std::int64_t num_layers = 1;
  /// Selective recomputation: the recomputed modules.
  RecomputeModules modules = kCoreAttention;

  /// Those that are recomputed: none unless recomputation is selective.
  RecomputeModules selected() const {
    return granularity == Recompute::selective ? modules : RecomputeModules();
  }
  /// True if layers may differ: some are recomputed and others keep their activations.
  bool partial() const { return granularity == Recompute::full && method != RecomputeMethod::uniform; }
  std::int64_t group_size() const {
    return granularity == Recompute::full && method == RecomputeMethod::uniform ? num_layers : 1;
  }
  /// True if a layer keeps its activations under partial recomputation; positions from 0.
  bool keeps(std::int64_t in_stage, std::int64_t on_rank) const {
    if (!partial()) return false;
    return method == RecomputeMethod::block ? in_stage >= num_layers : (on_rank + 1) % num_layers != 0;
  }
};

/// Parts of a layer whose inputs go to the host, by Megatron-Core's names (offload_modules in
/// megatron/core/transformer/transformer_config.py); not plumbline's own.
struct OffloadModules {
  bool attn_norm = false;
  bool qkv_linear = false;
  bool core_attn = false;  // queries, keys, values and, where attn_proj goes as well, the result
  bool attn_proj = false;
  bool mlp_norm = false;
  bool expert_fc1 = false;
  bool moe_act = false;
  bool fused_group_mlp = false;  // what experts keep
  bool any() const { return *this != OffloadModules(); }
  friend bool operator==(const OffloadModules&, const OffloadModules&) = default;
};

struct OffloadModuleName {
  std::string_view name;
  bool OffloadModules::*member;
};
inline constexpr OffloadModuleName kOffloadModules[] = {
    {"attn_norm", &OffloadModules::attn_norm}, {"qkv_linear", &OffloadModules::qkv_linear},
    {"core_attn", &OffloadModules::core_attn}, {"attn_proj", &OffloadModules::attn_proj},
    {"mlp_norm", &OffloadModules::mlp_norm},   {"expert_fc1", &OffloadModules::expert_fc1},
    {"moe_act", &OffloadModules::moe_act},     {"fused_group_mlp", &OffloadModules::fused_group_mlp}};

/// "core_attn,attn_proj"; none: "none".
std::string to_string(const OffloadModules& modules);

/// Activations in host memory from a forward to its backward (bench/training/offload.md); Megatron-Core's
/// name.
struct OffloadConfig {
  std::int64_t num_layers = 0;  // of every stage, from its first on; its last layer stays on the device
  OffloadModules modules;       // or these of every layer but a stage's last
  /// Share of the optimizer's states in host memory, where processors update them (Megatron-Core's name), and
  /// shards of parameters and gradients there (ZeRO 3, FSDP); not plumbline's own.
  double optimizer_fraction = 0;
  bool params = false;
  bool on() const { return num_layers > 0; }
  bool any() const { return on() || modules.any(); }
  bool states() const { return optimizer_fraction > 0 || params; }
};

}  // namespace plumbline

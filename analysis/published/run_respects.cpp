#include "analysis/published/run_respects.hpp"

#include <algorithm>
#include <array>

#include "analysis/published/dialect/dialect_columns.hpp"

namespace plumbline {
namespace {

struct KeyOfRespect {
  std::string_view key;
  std::string_view respect;
};

constexpr std::string_view kSplit = "split";
constexpr std::string_view kMicroBatch = "micro-batch";
constexpr std::string_view kRecomputation = "recomputation";
constexpr std::string_view kSharding = "optimizer sharding";
constexpr std::array<std::string_view, 5> kFree = {kSplit, kMicroBatch, kRecomputation, kSharding,
                                                   "vocab_parallel"};

/// Keys that are set together; every other key is a respect of its own.
constexpr std::array kRespects = std::to_array<KeyOfRespect>({
    {"tensor_model_parallel_size", kSplit},
    {"pipeline_model_parallel_size", kSplit},
    {"context_parallel_size", kSplit},
    {"expert_model_parallel_size", kSplit},
    {"expert_tensor_parallel_size", kSplit},
    {"data_parallel_size", kSplit},
    {"virtual_pipeline_chunks", kSplit},
    {"num_layers_per_virtual_pipeline_stage", kSplit},
    {"pipeline_schedule", kSplit},
    {"zero_bubble_memory", kSplit},
    {"layer_distribution", kSplit},
    {"account_for_embedding_in_pipeline_split", kSplit},
    {"account_for_loss_in_pipeline_split", kSplit},
    {"sequence_parallel", kSplit},
    {"micro_batch_size", kMicroBatch},
    {"num_microbatches", kMicroBatch},
    {"recompute_granularity", kRecomputation},
    {"recompute_modules", kRecomputation},
    {"recompute_method", kRecomputation},
    {"recompute_num_layers", kRecomputation},
    {"zero_stage", kSharding},
    {"use_megatron_fsdp", kSharding},
    {"num_distributed_optimizer_instances", kSharding},
    {"precision", "precision"},
    {"fp8_format", "precision"},
    {"fp8_recipe", "precision"},
    {"fp4_format", "precision"},
    {"fp8_param_gather", "precision"},
    {"first_last_layers_bf16", "precision"},
    {"num_layers_at_start_in_bf16", "precision"},
    {"num_layers_at_end_in_bf16", "precision"},
    {"fp8_dot_product_attention", "precision"},
    {"tp_comm_overlap", "overlap"},
    {"overlap_grad_reduce", "overlap"},
    {"overlap_param_gather", "overlap"},
    {"align_param_gather", "overlap"},
    {"overlap_p2p_comm", "overlap"},
});

template <class Keys>
bool has(const Keys& keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

}  // namespace

std::string_view respect_of(std::string_view key) {
  for (const KeyOfRespect& entry : kRespects) {
    if (entry.key == key) return entry.respect;
  }
  return key;
}

bool is_setting(std::string_view key) {
  return !has(kMeasuredColumns, key) && !has(kMeaningColumns, key) && !has(kTextColumns, key);
}

std::string settings_text(const Cells& settings,
                          const std::function<bool(std::string_view respect)>& wanted) {
  std::string text;
  for (const auto& [key, value] : settings) {
    if (is_setting(key) && wanted(respect_of(key))) text.append(key).append("=").append(value).append("\n");
  }
  return text;
}

std::string same_training(const Cells& settings) {
  return settings_text(settings, [](std::string_view respect) { return !has(kFree, respect); });
}

}  // namespace plumbline

#include "core/launch_files/megatron/bridge_export.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <sstream>
#include <string_view>
#include <vector>

#include "core/launch_files/arguments/argument_table.hpp"
#include "core/launch_files/arguments/export_checks.hpp"
#include "core/launch_files/megatron/megatron_export.hpp"
#include "core/launch_files/megatron/model/expert_layers.hpp"

namespace plumbline {
namespace {

constexpr const char* kBridgeKeysName = "Megatron-Bridge's keys";

struct BridgeKey {
  std::string_view flag;
  std::string_view section;  // model when a flag is not in the list; empty: no key
};
constexpr BridgeKey kBridgeKeys[] = {
    {"--micro-batch-size", "train"},
    {"--global-batch-size", "train"},
    {"--lr", "optimizer"},
    {"--weight-decay", "optimizer"},
    {"--clip-grad", "optimizer"},
    {"--optimizer", "optimizer"},
    {"--muon-momentum", "optimizer"},
    {"--muon-nesterov", "optimizer"},
    {"--muon-scale-mode", "optimizer"},
    {"--muon-extra-scale-factor", "optimizer"},
    {"--muon-num-ns-steps", "optimizer"},
    {"--muon-coefficient-type", "optimizer"},
    {"--muon-tp-mode", "optimizer"},
    {"--muon-no-split-qkv", "optimizer"},
    {"--use-precision-aware-optimizer", "optimizer"},
    {"--optimizer-cpu-offload", "optimizer"},
    {"--optimizer-offload-fraction", "optimizer"},
    {"--exp-avg-dtype", "optimizer"},
    {"--exp-avg-sq-dtype", "optimizer"},
    {"--use-distributed-optimizer", "ddp"},
    {"--num-distributed-optimizer-instances", "ddp"},
    {"--overlap-grad-reduce", "ddp"},
    {"--overlap-param-gather", "ddp"},
    {"--ddp-bucket-size", "ddp"},
    {"--use-megatron-fsdp", "ddp"},
    {"--data-parallel-sharding-strategy", "ddp"},
    {"--fsdp-double-buffer", "ddp"},
    {"--bf16", "mixed_precision"},
    {"--fp16", "mixed_precision"},
    {"--loss-scale", "mixed_precision"},
    {"--initial-loss-scale", "mixed_precision"},
    {"--min-loss-scale", "mixed_precision"},
    {"--loss-scale-window", "mixed_precision"},
    {"--hysteresis", "mixed_precision"},
    {"--fp8-format", "mixed_precision"},
    {"--fp8-recipe", "mixed_precision"},
    {"--fp8-margin", "mixed_precision"},
    {"--fp8-amax-history-len", "mixed_precision"},
    {"--fp8-param-gather", "mixed_precision"},
    {"--fp4-format", "mixed_precision"},
    {"--first-last-layers-bf16", "mixed_precision"},
    {"--num-layers-at-start-in-bf16", "mixed_precision"},
    {"--num-layers-at-end-in-bf16", "mixed_precision"},
    {"--tp-comm-overlap", "comm_overlap"},
    {"--no-overlap-p2p-communication", "comm_overlap"},
    {"--no-align-param-gather", "comm_overlap"},
    {"--overlap-moe-expert-parallel-comm", "comm_overlap"},
    {"--overlap-param-gather-with-optimizer-step", "comm_overlap"},
    {"--delay-wgrad-compute", "comm_overlap"},
    {"--defer-embedding-wgrad-compute", "comm_overlap"},
    {"--wgrad-deferral-limit", "comm_overlap"},
    {"--tokenizer-type", ""},
    {"--ckpt-format", ""},
    // num_query_groups says it, and seq_length the learned positions.
    {"--group-query-attention", ""},
    {"--max-position-embeddings", ""},
    // grad_reduce_in_fp32 of mixed_precision, which replaces that of ddp (training/mixed_precision.py).
    {"--grad-reduce-in-bf16", ""},
    {"--accumulate-allreduce-grads-in-fp32", ""},
};
/// Keys whose values are lists, of one item as well.
constexpr std::string_view kLists[] = {"--recompute-modules", "--cuda-graph-modules", "--offload-modules",
                                       "--hierarchical-context-parallel-sizes"};

/// "--no-x" is x: false, "--x" is x: true unless there is a value.
std::string bridge_line(const std::string& flag, const std::vector<std::string>& values) {
  if (flag == "--squared-relu")
    return "  activation_func:\n    _target_: megatron.core.activations.squared_relu\n    _call_: false\n";
  if (flag == "--moe-layer-freq") {
    std::string text = values.front();
    std::erase(text, '"');
    return fmt::format("  moe_layer_freq: [{}]\n", fmt::join(expert_layers({text}), ", "));
  }
  std::string name = flag.substr(2);
  std::replace(name.begin(), name.end(), '-', '_');
  bool opposite = false;
  if (flag == "--swiglu") {
    name = "gated_linear_unit";
  } else if (flag == "--fp8-param-gather") {
    name = "fp8_param_gather";
  } else if (const auto* const other = argument_table("megatron_flags.txt").name_of(flag)) {
    name = other->first;
    opposite = other->second.opposite;
  }
  if (values.empty()) return fmt::format("  {}: {}\n", name, !opposite);
  const bool is_list = std::find(std::begin(kLists), std::end(kLists), flag) != std::end(kLists);
  if (values.size() == 1 && !is_list) return fmt::format("  {}: {}\n", name, values.front());
  return fmt::format("  {}: [{}]\n", name, fmt::join(values, ", "));
}

}  // namespace

std::string to_megatron_bridge(const RunConfig& config, const ExportNodes& nodes) {
  if (config.numerics.precision == DType::fp32)
    refuse_export(kBridgeKeysName, "precision", "fp32", "bf16 or fp16");
  const ModelConfig& model = config.model;
  if (model.position.kind == Positions::learned && model.position.max != config.batch.seq_length)
    refuse_export(kBridgeKeysName, "seq_length",
                  fmt::format("{} with {} learned positions", config.batch.seq_length, model.position.max),
                  "as many as positions");
  std::map<std::string, std::string, std::less<>> sections;
  const auto add = [&](const std::string& flag, const std::vector<std::string>& values) {
    const auto* const key = std::find_if(std::begin(kBridgeKeys), std::end(kBridgeKeys),
                                         [&](const BridgeKey& each) { return each.flag == flag; });
    const std::string_view section = key == std::end(kBridgeKeys) ? "model" : key->section;
    if (!section.empty()) sections[std::string(section)] += bridge_line(flag, values);
  };
  RunConfig flags = config;  // without keys that are no flags of Megatron-LM
  flags.numerics.activation_func_fp8_input_store = flags.numerics.fp8.transposes_again =
      flags.numerics.fp8_dot_product_attention = false;
  const bool whole_masters = config.optimizer.lean() && !config.optimizer.store_param_remainders;
  if (whole_masters) flags.optimizer.store_param_remainders = keeps_remainders(config.numerics);
  for (const std::string& line : megatron_flag_lines(flags, kBridgeKeysName)) {
    std::istringstream words(line);
    std::string flag;
    std::vector<std::string> values;
    for (std::string word; words >> word;) {
      if (word.starts_with("--")) {
        if (!flag.empty()) add(flag, values);
        flag = word;
        values.clear();
      } else {
        values.push_back(word);
      }
    }
    add(flag, values);
  }
  sections["model"] += "  should_pad_vocab: true\n";
  sections["mixed_precision"] +=
      fmt::format("  grad_reduce_in_fp32: {}\n", config.numerics.grad_dtype == GradDType::fp32);
  // Defaults of recipes are on.
  if (!config.parallel.dp.overlap_grad_reduce.value_or(true))
    sections["ddp"] += "  overlap_grad_reduce: false\n";
  if (!config.numerics.cross_entropy_loss_fusion) sections["model"] += "  cross_entropy_loss_fusion: false\n";
  if (config.numerics.activation_func_fp8_input_store)
    sections["model"] += "  activation_func_fp8_input_store: true\n";
  if (config.numerics.fp8_dot_product_attention) sections["model"] += "  fp8_dot_product_attention: true\n";
  if (config.offload.on()) sections["model"] += "  cpu_offloading: true\n";
  if (whole_masters) sections["optimizer"] += "  store_param_remainders: false\n";
  if (config.numerics.fp8.transposes_again)
    sections["model"] += "  disable_parameter_transpose_cache: true\n";
  std::string text = fmt::format("# Overrides for a recipe of Megatron-Bridge on {} nodes of {} GPUs\n",
                                 nodes.nodes, nodes.gpus);
  for (const char* section : {"model", "train", "optimizer", "ddp", "mixed_precision", "comm_overlap"})
    if (sections.contains(section)) text += fmt::format("{}:\n{}", section, sections[section]);
  return text;
}

}  // namespace plumbline

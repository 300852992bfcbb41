// Every key that exports for Megatron-Bridge can write is one of its classes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/config_text/load_config.hpp"
#include "core/launch_files/launch_export.hpp"
#include "core/launch_files/launch_file.hpp"
#include "tests/core/launch_files/bridge_fields.hpp"

namespace plumbline::bridge_export_test {
namespace {

std::string source_text(const std::string& path) {
  std::ifstream in(std::string(PLUMBLINE_SOURCE_DIR) + "/" + path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void add_flags(const std::string& text, std::set<std::string>& flags) {
  const std::regex flag("--[a-z0-9][a-z0-9-]*");
  for (std::sregex_iterator at(text.begin(), text.end(), flag), end; at != end; ++at) flags.insert(at->str());
}

/// Flags that the exporter's sources write, within quotes.
std::set<std::string> flags_of_exporter() {
  std::set<std::string> flags;
  for (const char* path : {"core/launch_files/megatron/megatron_export.cpp",
                           "core/launch_files/megatron/model/megatron_model_flags.cpp"}) {
    const std::string text = source_text(path);
    const std::regex quoted("\"(--[^\"]*)");
    for (std::sregex_iterator at(text.begin(), text.end(), quoted), end; at != end; ++at)
      add_flags((*at)[1].str(), flags);
  }
  return flags;
}

constexpr const char* kNemotron =
    R"({"model_type":"nemotron","num_hidden_layers":32,"hidden_size":6144,"num_attention_heads":48,)"
    R"("num_key_value_heads":8,"intermediate_size":24576,"hidden_act":"relu2","vocab_size":256000,)"
    R"("max_position_embeddings":4096,"partial_rotary_factor":0.5,"norm_eps":1e-5,"rope_theta":10000})";

/// Configurations that together set every key.
const std::vector<Overrides>& configurations() {
  static const std::vector<Overrides> kAll = {
      {{"model", "llama-3.1-8b"},
       {"gpus", "64"},
       {"tp", "2"},
       {"pp", "2"},
       {"cp", "4"},
       {"cp_comm_type", "a2a+p2p"},
       {"hierarchical_context_parallel_sizes", "2,2"},
       {"sequence_parallel", "true"},
       {"tp_comm_overlap", "true"},
       {"pipeline_schedule", "interleaved"},
       {"virtual_pipeline_chunks", "2"},
       {"overlap_p2p_comm", "false"},
       {"defer_embedding_wgrad_compute", "true"},
       {"wgrad_deferral_limit", "2"},
       {"overlap_param_gather_with_optimizer_step", "true"},
       {"zero_stage", "1"},
       {"num_distributed_optimizer_instances", "2"},
       {"overlap_grad_reduce", "true"},
       {"overlap_param_gather", "true"},
       {"align_param_gather", "false"},
       {"ddp_bucket_size", "50000000"},
       {"precision", "bf16"},
       {"grad_dtype", "same"},
       {"fp8_format", "hybrid"},
       {"fp8_recipe", "delayed"},
       {"fp8_margin", "1"},
       {"fp8_amax_history_len", "16"},
       {"fp8_param_gather", "true"},
       {"fp8_dot_product_attention", "true"},
       {"disable_parameter_transpose_cache", "true"},
       {"activation_func_fp8_input_store", "true"},
       {"first_last_layers_bf16", "true"},
       {"num_layers_at_start_in_bf16", "2"},
       {"num_layers_at_end_in_bf16", "2"},
       {"cross_entropy_loss_fusion", "true"},
       {"deterministic_mode", "true"},
       {"recompute_granularity", "selective"},
       {"recompute_modules", "mlp"},
       {"cuda_graph_impl", "local"},
       {"cuda_graph_modules", "attn"},
       {"gbs", "64"}},
      {{"model", "gpt2-124m"}, {"precision", "fp16"}, {"loss_scale", "8"}, {"seq_length", "1024"}},
      {{"model", "llama-3-8b"},
       {"precision", "fp16"},
       {"grad_dtype", "fp32"},
       {"initial_loss_scale", "8"},
       {"min_loss_scale", "2"},
       {"loss_scale_window", "4"},
       {"hysteresis", "3"},
       {"cross_entropy_loss_fusion", "false"},
       {"overlap_grad_reduce", "false"}},
      {{"model", kNemotron}, {"precision", "bf16"}, {"fp4_format", "e2m1"}},
      {{"model", "qwen2.5-7b"},
       {"precision", "bf16"},
       {"recompute_granularity", "full"},
       {"recompute_method", "block"},
       {"recompute_num_layers", "2"}},
      {{"model", "qwen3-8b"}, {"precision", "bf16"}, {"cpu_offloading_num_layers", "2"}},
      {{"model", "qwen3-8b"}, {"precision", "bf16"}, {"optimizer_offload_fraction", "0.5"}},
      {{"model", "llama-3-8b"},
       {"precision", "bf16"},
       {"gpus", "8"},
       {"gbs", "8"},
       {"zero_stage", "3"},
       {"fsdp_double_buffer", "true"},
       {"offload_modules", "core_attn,attn_proj"}},
      {{"model", "llama-3-8b"},
       {"precision", "bf16"},
       {"gpus", "2"},
       {"pp", "2"},
       {"layer_distribution", "15,17"}},
      {{"model", "deepseek-v3"},
       {"precision", "bf16"},
       {"gpus", "64"},
       {"gbs", "64"},
       {"tp", "2"},
       {"expert_model_parallel_size", "8"},
       {"expert_tensor_parallel_size", "1"},
       {"mtp_num_layers", "1"},
       {"mtp_loss_scaling_factor", "0.2"},
       {"moe_aux_loss_coeff", "0.001"},
       {"moe_z_loss_coeff", "0.001"},
       {"moe_router_bias_update_rate", "0.01"},
       {"moe_expert_capacity_factor", "1"},
       {"moe_pad_expert_input_to_capacity", "true"},
       {"moe_token_drop_policy", "position"},
       {"overlap_moe_expert_parallel_comm", "true"},
       {"delay_wgrad_compute", "true"},
       {"moe_shared_expert_overlap", "true"},
       {"moe_expert_rank_capacity_factor", "1.5"},
       {"moe_paged_stash", "true"},
       {"mtp_use_repeated_layer", "true"},
       {"exp_avg_dtype", "bf16"},
       {"exp_avg_sq_dtype", "fp8"},
       {"store_param_remainders", "true"}},
      {{"model", "qwen1.5-moe-a2.7b"}, {"precision", "bf16"}},
      {{"model", "qwen3-8b"},
       {"precision", "bf16"},
       {"zero_stage", "1"},
       {"optimizer", "muon"},
       {"muon_tp_mode", "blockwise"},
       {"muon_nesterov", "true"},
       {"muon_split_qkv", "false"}},
  };
  return kAll;
}

TEST(BridgeExport, WritesKeysThatBridgeHas) {
  const std::set<test::SectionKey> known = test::bridge_fields(PLUMBLINE_SOURCE_DIR);
  ASSERT_GT(known.size(), 500U);
  std::set<std::string> flags;
  for (const Overrides& settings : configurations()) {
    RunConfig config = load_run_config("", settings);
    for (const auto& [section, key] : test::written_keys(export_launch(config, "megatron-bridge")))
      EXPECT_TRUE(known.contains({section, key})) << section << "." << key;
    config.numerics.activation_func_fp8_input_store = config.numerics.fp8.transposes_again =
        config.numerics.fp8_dot_product_attention = false;
    add_flags(export_launch(config, "megatron-lm"), flags);
  }
  // The configurations leave no flag out, and so no key.
  for (const std::string& flag : flags_of_exporter()) EXPECT_TRUE(flags.contains(flag)) << flag;
}

TEST(BridgeExport, RefusesPositionsThatNoKeySays) {
  const RunConfig config =
      load_run_config("", {{"model", "gpt2-124m"}, {"precision", "bf16"}, {"seq_length", "512"}});
  EXPECT_THROW(export_launch(config, "megatron-bridge"), InputError);
}

}  // namespace
}  // namespace plumbline::bridge_export_test

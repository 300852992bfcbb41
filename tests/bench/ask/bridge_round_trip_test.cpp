// Drawn configurations go out as files for Megatron-Bridge and come back: only keys of its classes, and the
// same prediction. PLUMBLINE_CONFIGURATIONS draws more than the few of a quick run, PLUMBLINE_SEED others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>

#include "analysis/predict/predict.hpp"
#include "analysis/predict/prediction_rows.hpp"
#include "bench/ask/launch_text.hpp"
#include "bench/plan/plan.hpp"
#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/config_listing.hpp"
#include "core/config_text/load_config.hpp"
#include "tests/core/launch_files/bridge_fields.hpp"

namespace plumbline::bridge_round_trip_test {
namespace {

namespace fs = std::filesystem;

int from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

/// Keys of a configuration, each with one of some values.
class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}
  const std::string& set(const char* key, std::initializer_list<const char*> values) {
    settings.push_back({key, *(values.begin() + below(static_cast<int>(values.size())))});
    return settings.back().value;
  }
  /// The default, twice in three.
  void sometimes(const char* key, std::initializer_list<const char*> values) {
    if (one_in(3)) set(key, values);
  }
  bool one_in(int n) { return below(n) == 0; }
  Overrides settings;

 private:
  int below(int end) { return std::uniform_int_distribution<int>(0, end - 1)(random_); }
  std::mt19937 random_;
};

void draw_layout(Draw& draw, bool experts) {
  draw.set("world_size", {"8", "16", "32", "64"});
  draw.set("tensor_model_parallel_size", {"1", "2", "4"});
  draw.set("sequence_parallel", {"true", "false"});
  draw.sometimes("tp_comm_overlap", {"true"});
  if (draw.set("pipeline_model_parallel_size", {"1", "2", "4"}) != "1") {
    if (draw.set("pipeline_schedule", {"1f1b", "interleaved"}) == "interleaved")
      draw.set("virtual_pipeline_chunks", {"2", "3", "4"});
    draw.sometimes("layer_distribution", {"embedding+loss", "embedding", "loss", "balanced", "6,*", "6,*,2"});
    draw.sometimes("overlap_p2p_comm", {"true", "false"});
    if (draw.one_in(3)) {
      draw.set("defer_embedding_wgrad_compute", {"true"});
      draw.sometimes("wgrad_deferral_limit", {"2"});
    }
    draw.sometimes("overlap_param_gather_with_optimizer_step", {"true"});
  }
  if (draw.one_in(4)) {
    draw.set("context_parallel_size", {"2", "4"});
    if (draw.set("cp_comm_type", {"p2p", "all_gather", "a2a", "a2a+p2p"}) == "a2a+p2p")
      draw.set("hierarchical_context_parallel_sizes", {"2,2", "2,1"});
  }
  const std::string zero = draw.set("zero_stage", {"0", "1", "1", "3"});
  draw.set("software", {zero == "3" ? "megatron-bridge-fsdp" : "megatron-bridge"});
  if (zero == "3") draw.sometimes("fsdp_double_buffer", {"true"});
  draw.sometimes("num_distributed_optimizer_instances", {"2"});
  draw.sometimes("overlap_grad_reduce", {"true", "false"});
  draw.sometimes("overlap_param_gather", {"true", "false"});
  draw.sometimes("align_param_gather", {"false"});
  draw.sometimes("ddp_bucket_size", {"10000000", "40000000"});
  if (!experts) return;
  draw.set("expert_model_parallel_size", {"1", "2", "4", "8"});
  draw.sometimes("expert_tensor_parallel_size", {"1", "2"});
  draw.sometimes("moe_token_dispatcher_type", {"alltoall", "allgather", "flex"});
}

void draw_numerics(Draw& draw) {
  draw.set("precision", {"bf16", "bf16", "bf16", "fp16"});
  draw.sometimes("grad_dtype", {"fp32", "same"});
  const int kind = draw.one_in(3) ? 8 : draw.one_in(6) ? 4 : 16;
  if (kind == 4) draw.set("fp4_format", {"e2m1"});
  if (kind == 8) {
    draw.set("fp8_format", {"hybrid", "e4m3"});
    if (draw.set("fp8_recipe", {"delayed", "tensorwise", "blockwise", "mxfp8"}) == "delayed")
      draw.sometimes("fp8_amax_history_len", {"16"});
    draw.sometimes("fp8_param_gather", {"true"});
    draw.sometimes("disable_parameter_transpose_cache", {"true"});
    draw.sometimes("activation_func_fp8_input_store", {"true"});
    draw.sometimes("fp8_dot_product_attention", {"true"});
  }
  if (kind < 16 && draw.one_in(3)) {
    draw.set("first_last_layers_bf16", {"true"});
    draw.sometimes("num_layers_at_start_in_bf16", {"0", "2"});
    draw.sometimes("num_layers_at_end_in_bf16", {"0", "2"});
  }
  draw.sometimes("attention_backend", {"unfused"});
  draw.sometimes("cross_entropy_loss_fusion", {"false"});
  draw.sometimes("hidden_dropout", {"0.1"});
  draw.sometimes("attention_dropout", {"0.1"});
  draw.sometimes("deterministic_mode", {"true"});
  if (draw.one_in(4)) {
    draw.sometimes("exp_avg_dtype", {"bf16", "fp8"});
    draw.sometimes("exp_avg_sq_dtype", {"bf16", "fp8"});
    draw.sometimes("store_param_remainders", {"true"});
  } else if (draw.one_in(4)) {
    draw.set("optimizer_offload_fraction", {"0.5", "1"});
  }
}

void draw_experts(Draw& draw) {
  draw.sometimes("moe_aux_loss_coeff", {"0", "0.001"});
  draw.sometimes("moe_router_load_balancing_type", {"aux_loss", "seq_aux_loss", "global_aux_loss"});
  draw.sometimes("moe_z_loss_coeff", {"0.001"});
  if (draw.one_in(4)) {
    draw.set("moe_expert_capacity_factor", {"1", "1.25"});
    draw.sometimes("moe_pad_expert_input_to_capacity", {"true"});
    draw.sometimes("moe_token_drop_policy", {"position"});
  }
  if (draw.one_in(4)) {
    draw.set("overlap_moe_expert_parallel_comm", {"true"});
    draw.sometimes("delay_wgrad_compute", {"true"});
  }
  draw.sometimes("moe_shared_expert_overlap", {"true"});
  if (draw.one_in(5)) {
    draw.set("moe_expert_rank_capacity_factor", {"1.5", "2"});
    if (draw.one_in(2)) {
      draw.set("moe_paged_stash", {"true"});
      draw.sometimes("moe_paged_stash_buffer_size_factor_cuda", {"1.2"});
    }
  }
}

void draw_memory(Draw& draw, bool experts) {
  const std::string again = draw.set("recompute_granularity", {"none", "selective", "full"});
  if (again == "full") {
    draw.sometimes("recompute_method", {"block"});
    draw.sometimes("recompute_num_layers", {"1", "2"});
  } else if (again == "selective") {
    if (experts) {
      draw.sometimes("recompute_modules", {"moe_act", "layernorm,moe", "core_attn,shared_experts"});
    } else {
      draw.sometimes("recompute_modules", {"core_attn,layernorm", "mlp"});
    }
  }
  if (draw.one_in(3)) {
    draw.set("cpu_offloading_num_layers", {"1", "2"});
  } else if (again != "full") {
    draw.sometimes("offload_modules",
                   {"core_attn,attn_proj", "mlp_norm", experts ? "expert_fc1" : "qkv_linear"});
  }
  if (draw.one_in(3)) {
    draw.set("cuda_graph_impl", {"local", "transformer_engine", "full_iteration"});
    draw.sometimes("cuda_graph_modules", {"attn", "attn,moe_router"});
  }
}

Overrides drawn(unsigned seed) {
  Draw draw(seed);
  const std::string model =
      draw.set("model", {"llama-3.1-8b", "qwen3-8b", "qwen2.5-7b", "llama-3.2-1b", "gpt3-175b",
                         "mixtral-8x7b", "qwen3-30b-a3b", "qwen1.5-moe-a2.7b", "deepseek-v3", "kimi-k2"});
  const bool experts = static_cast<bool>(find_preset(model)->mixture);
  draw.set("hardware", {"h100-sxm-80gb", "b200-sxm-180gb", "gb200-nvl72", "a100-sxm-80gb"});
  draw_layout(draw, experts);
  draw_numerics(draw);
  draw_memory(draw, experts);
  if (experts) draw_experts(draw);
  if (experts && draw.one_in(4)) {
    draw.set("mtp_num_layers", {"1", "2"});
    draw.sometimes("mtp_use_repeated_layer", {"true"});
    draw.sometimes("keep_mtp_spec_in_bf16", {"true"});
  }
  draw.set("seq_length", {model == "gpt3-175b" ? "2048" : "4096"});
  draw.set("micro_batch_size", {"1", "2"});
  draw.set("global_batch_size", {"64", "128"});
  draw.sometimes("make_vocab_size_divisible_by", {"1", "256"});
  return draw.settings;
}

/// "KEY: found A, read back as B" for keys that differ, to find why figures do.
std::string differing_keys(const RunConfig& config, const RunConfig& again) {
  std::map<std::string, std::string> before;
  for (const auto& [key, value] : describe(config)) before[key] = value;
  std::string lines;
  for (const auto& [key, value] : describe(again))
    if (key != "model" && before[key] != value)
      lines += key + ": found " + before[key] + ", read back as " + value + "\n";
  return lines;
}

std::map<std::string, double> figures(const RunConfig& config) {
  if (const auto reason = why_invalid(config)) throw InputError(*reason);
  const HardwareProfile hardware = load_hardware(config.machine.hardware);
  if (const auto reason = why_unpredictable(config, hardware)) throw InputError(*reason);
  const Prediction prediction = predict(config, step_for(config), hardware);
  return {{"step_s", prediction.time.step.value},
          {"peak_bytes", static_cast<double>(prediction.memory.peak.value)},
          {"exposed_data_s", prediction.time.exposed_data.value},
          {"needed_bytes", static_cast<double>(prediction.fit.needed.value)}};
}

TEST(BridgeRoundTrip, DrawnConfigurationsReadBackWithTheSamePrediction) {
  const int wanted = from_environment("PLUMBLINE_CONFIGURATIONS", 200);
  const auto first = static_cast<unsigned>(from_environment("PLUMBLINE_SEED", 83));
  const std::set<test::SectionKey> known = test::bridge_fields(PLUMBLINE_SOURCE_DIR);
  const fs::path path = fs::path(testing::TempDir()) / "bridge_round_trip.yaml";
  int compared = 0;
  int dense = 0;
  std::map<std::string, int> refusals;
  for (unsigned seed = first; compared < wanted && seed - first < 200U * static_cast<unsigned>(wanted);
       ++seed) {
    RunConfig config;
    std::map<std::string, double> before;
    try {
      config = load_run_config("", drawn(seed));
      if (!config.model.mixture && dense >= wanted / 2) continue;
      before = figures(config);
    } catch (const InputError&) {
      continue;  // no legal configuration
    }
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::string text;
    try {
      text = launch_text(config, "megatron-bridge");
    } catch (const InputError& error) {
      const std::string reason = error.what();
      EXPECT_THAT(reason, testing::HasSubstr("expected")) << reason;
      ++refusals[reason.substr(0, reason.find(" with"))];
      continue;
    }
    ++compared;
    dense += config.model.mixture ? 0 : 1;
    for (const auto& [section, key] : test::written_keys(text))
      EXPECT_TRUE(known.contains({section, key})) << section << "." << key;
    std::ofstream(path) << text;
    try {
      const RunConfig again =
          load_run_config(path.string(), {{"world_size", std::to_string(config.parallel.world_size)},
                                          {"hardware", config.machine.hardware}});
      EXPECT_EQ(figures(again), before) << differing_keys(config, again) << text;
    } catch (const InputError& error) {
      ADD_FAILURE() << error.what() << "\n" << text;
    }
  }
  fs::remove(path);
  if (std::getenv("PLUMBLINE_SEED") != nullptr)
    for (const auto& [reason, count] : refusals) std::printf("%d refused: %s\n", count, reason.c_str());
  EXPECT_EQ(compared, wanted) << "too few of the drawn configurations are legal";
}

}  // namespace
}  // namespace plumbline::bridge_round_trip_test

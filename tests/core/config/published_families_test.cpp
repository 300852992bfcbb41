// Families whose published models are executed: what the pages say of them is what the compatibility table
// does with published config.json files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "core/config/families/executed_model.hpp"
#include "core/config/families/families.hpp"
#include "core/config/model_config.hpp"

namespace plumbline::published_families_test {
namespace {

/// Published models of families without a preset, and those whose preset leaves a feature out. Sizes, and the
/// keys that decide; other keys change nothing of what is executed.
struct PublishedModel {
  const char* name;  // on the Hugging Face Hub
  const char* config;
};
constexpr PublishedModel kPublished[] = {
    {"deepseek-ai/DeepSeek-V3",
     R"({"model_type":"deepseek_v3","num_hidden_layers":61,"hidden_size":7168,"num_attention_heads":128,
      "num_key_value_heads":128,"intermediate_size":18432,"moe_intermediate_size":2048,"n_routed_experts":256,
      "n_shared_experts":1,"num_experts_per_tok":8,"first_k_dense_replace":3,"n_group":8,"topk_group":4,
      "norm_topk_prob":true,"routed_scaling_factor":2.5,"q_lora_rank":1536,"kv_lora_rank":512,
      "qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,"vocab_size":129280,
      "max_position_embeddings":163840,"rope_theta":10000,"rope_scaling":{"type":"yarn","factor":40,
      "beta_fast":32,"beta_slow":1,"mscale":1.0,"mscale_all_dim":1.0,
      "original_max_position_embeddings":4096}})"},
    {"moonshotai/Moonlight-16B-A3B",
     R"({"model_type":"deepseek_v3","num_hidden_layers":27,"hidden_size":2048,"num_attention_heads":16,
      "num_key_value_heads":16,"intermediate_size":11264,"moe_intermediate_size":1408,"n_routed_experts":64,
      "n_shared_experts":2,"num_experts_per_tok":6,"first_k_dense_replace":1,"n_group":1,"topk_group":1,
      "norm_topk_prob":true,"routed_scaling_factor":2.446,"q_lora_rank":null,"kv_lora_rank":512,
      "qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,"vocab_size":163840,
      "max_position_embeddings":8192,"rope_theta":50000.0})"},
    {"zai-org/glm-4-9b-hf",
     R"({"model_type":"glm","num_hidden_layers":40,"hidden_size":4096,"num_attention_heads":32,
      "num_key_value_heads":2,"head_dim":128,"intermediate_size":13696,"vocab_size":151552,
      "max_position_embeddings":131072,"partial_rotary_factor":0.5,"attention_bias":true})"},
    {"zai-org/GLM-4.5-Air",
     R"({"model_type":"glm4_moe","num_hidden_layers":46,"hidden_size":4096,"num_attention_heads":96,
      "num_key_value_heads":8,"head_dim":128,"intermediate_size":10944,"moe_intermediate_size":1408,
      "n_routed_experts":128,"n_shared_experts":1,"num_experts_per_tok":8,"first_k_dense_replace":1,
      "n_group":1,"topk_group":1,"norm_topk_prob":true,"routed_scaling_factor":1.0,"attention_bias":true,
      "partial_rotary_factor":0.5,"use_qk_norm":false,"vocab_size":151552,"max_position_embeddings":131072,
      "rope_theta":1000000,"rms_norm_eps":1e-5,"num_nextn_predict_layers":1})"},
    {"nvidia/Minitron-4B-Base",
     R"({"model_type":"nemotron","num_hidden_layers":32,"hidden_size":3072,"num_attention_heads":24,
      "num_key_value_heads":8,"head_dim":128,"intermediate_size":9216,"vocab_size":256000,
      "max_position_embeddings":4096,"hidden_act":"relu2","norm_eps":1e-5,"partial_rotary_factor":0.5})"},
    {"arcee-ai/AFM-4.5B",
     R"({"model_type":"arcee","num_hidden_layers":36,"hidden_size":2560,"num_attention_heads":20,
      "num_key_value_heads":4,"head_dim":128,"intermediate_size":18432,"vocab_size":128005,
      "max_position_embeddings":65536,"hidden_act":"relu2","rope_scaling":{"rope_type":"yarn","factor":20.0,
      "beta_fast":32.0,"beta_slow":1.0,"original_max_position_embeddings":4096}})"},
    {"ByteDance-Seed/Seed-OSS-36B-Base",
     R"({"model_type":"seed_oss","num_hidden_layers":64,"hidden_size":5120,"num_attention_heads":80,
      "num_key_value_heads":8,"head_dim":128,"intermediate_size":27648,"vocab_size":155136,
      "max_position_embeddings":524288,"attention_bias":true,"attention_out_bias":false,
      "rope_scaling":{"rope_type":"default"}})"},
    {"mistralai/Ministral-8B-Instruct-2410",
     R"({"model_type":"ministral","num_hidden_layers":36,"hidden_size":4096,"num_attention_heads":32,
      "num_key_value_heads":8,"head_dim":128,"intermediate_size":12288,"vocab_size":131072,
      "max_position_embeddings":32768,"sliding_window":32768,"rope_theta":100000000.0})"},
    {"baidu/ERNIE-4.5-0.3B-PT",
     R"({"model_type":"ernie4_5","num_hidden_layers":18,"hidden_size":1024,"num_attention_heads":16,
      "num_key_value_heads":2,"head_dim":128,"intermediate_size":3072,"vocab_size":103424,
      "max_position_embeddings":131072,"use_bias":false,"tie_word_embeddings":true})"},
    {"stabilityai/stablelm-3b-4e1t",
     R"({"model_type":"stablelm","num_hidden_layers":32,"hidden_size":2560,"num_attention_heads":32,
      "num_key_value_heads":32,"intermediate_size":6912,"vocab_size":50304,"max_position_embeddings":4096,
      "partial_rotary_factor":0.25,"use_qkv_bias":false})"},
    {"EleutherAI/pythia-1b",
     R"({"model_type":"gpt_neox","num_hidden_layers":16,"hidden_size":2048,"num_attention_heads":8,
      "intermediate_size":8192,"vocab_size":50304,"max_position_embeddings":2048,"rotary_pct":0.25,
      "use_parallel_residual":true})"},
    {"rednote-hilab/dots.llm1.base",
     R"({"model_type":"dots1","num_hidden_layers":62,"hidden_size":4096,"num_attention_heads":32,
      "num_key_value_heads":32,"head_dim":128,"intermediate_size":10944,"moe_intermediate_size":1408,
      "n_routed_experts":128,"n_shared_experts":2,"num_experts_per_tok":6,"first_k_dense_replace":1,
      "n_group":1,"topk_group":1,"norm_topk_prob":true,"routed_scaling_factor":2.5,"vocab_size":152064,
      "max_position_embeddings":32768})"},
    {"HuggingFaceTB/SmolLM3-3B",
     R"({"model_type":"smollm3","num_hidden_layers":36,"hidden_size":2048,"num_attention_heads":16,
      "num_key_value_heads":4,"intermediate_size":11008,"vocab_size":128256,"max_position_embeddings":65536,
      "no_rope_layer_interval":4,"use_sliding_window":false})"},
    {"allenai/OLMo-2-1124-7B",
     R"({"model_type":"olmo2","num_hidden_layers":32,"hidden_size":4096,"num_attention_heads":32,
      "num_key_value_heads":32,"intermediate_size":11008,"vocab_size":100352,
      "max_position_embeddings":4096})"},
    // fairseq2/models/olmo/config.py: YaRN of factor 8 in the layers that see all keys.
    {"allenai/Olmo-3-1025-7B",
     R"({"model_type":"olmo3","num_hidden_layers":32,"hidden_size":4096,"num_attention_heads":32,
      "num_key_value_heads":32,"intermediate_size":11008,"vocab_size":100278,"max_position_embeddings":65536,
      "rope_theta":500000,"sliding_window":4096,"rope_scaling":{"rope_type":"yarn","factor":8.0,
      "beta_fast":32.0,"beta_slow":1.0,"original_max_position_embeddings":8192}})"},
    {"LGAI-EXAONE/EXAONE-4.0-1.2B",
     R"({"model_type":"exaone4","num_hidden_layers":30,"hidden_size":2048,"num_attention_heads":32,
      "num_key_value_heads":8,"head_dim":64,"intermediate_size":4096,"vocab_size":102400,
      "max_position_embeddings":65536,"rope_theta":1000000,"sliding_window":null,
      "rope_scaling":{"rope_type":"llama3","factor":16.0,"high_freq_factor":4.0,"low_freq_factor":1.0,
      "original_max_position_embeddings":8192}})"},
    {"zai-org/GLM-4-9B-0414",
     R"({"model_type":"glm4","num_hidden_layers":40,"hidden_size":4096,"num_attention_heads":32,
      "num_key_value_heads":2,"head_dim":128,"intermediate_size":13696,"vocab_size":151552,
      "max_position_embeddings":32768,"partial_rotary_factor":0.5,"attention_bias":true})"},
    // transformers, models/gemma2/configuration_gemma2.py: the defaults of both caps.
    {"google/gemma-2-2b",
     R"({"model_type":"gemma2","num_hidden_layers":26,"hidden_size":2304,"num_attention_heads":8,
      "num_key_value_heads":4,"head_dim":256,"intermediate_size":9216,"vocab_size":256000,
      "max_position_embeddings":8192,"attn_logit_softcapping":50.0,"final_logit_softcapping":30.0,
      "query_pre_attn_scalar":256,"sliding_window":4096})"},
    {"allenai/OLMoE-1B-7B-0924",
     R"({"model_type":"olmoe","num_hidden_layers":16,"hidden_size":2048,"num_attention_heads":16,
      "num_key_value_heads":16,"intermediate_size":1024,"num_experts":64,"num_experts_per_tok":8,
      "norm_topk_prob":false,"vocab_size":50304,"max_position_embeddings":4096,"clip_qkv":null})"},
    {"MiniMaxAI/MiniMax-M2",
     R"({"model_type":"minimax_m2","num_hidden_layers":62,"hidden_size":3072,"num_attention_heads":48,
      "num_key_value_heads":8,"head_dim":128,"intermediate_size":1536,"num_local_experts":256,
      "num_experts_per_tok":8,"rotary_dim":64,"vocab_size":200064,"max_position_embeddings":196608,
      "rope_theta":5000000,"scoring_func":"sigmoid","use_routing_bias":true})"},
    {"ibm-granite/granite-3.0-2b-base",
     R"({"model_type":"granite","num_hidden_layers":40,"hidden_size":2048,"num_attention_heads":32,
      "num_key_value_heads":8,"intermediate_size":8192,"vocab_size":49152,"max_position_embeddings":4096,
      "attention_multiplier":0.015625,"embedding_multiplier":12.0,"logits_scaling":8.0,
      "residual_multiplier":0.22,"tie_word_embeddings":true})"},
    // mlx-lm, mlx_lm/models/hunyuan_v1_dense.py requires the alpha of this type.
    {"tencent/Hunyuan-7B-Instruct",
     R"({"model_type":"hunyuan_v1_dense","num_hidden_layers":32,"hidden_size":4096,"num_attention_heads":32,
      "num_key_value_heads":8,"head_dim":128,"intermediate_size":14336,"vocab_size":128167,
      "max_position_embeddings":32768,"use_qk_norm":true,"rope_scaling":{"type":"dynamic","alpha":1000.0,
      "factor":1.0,"beta_fast":32,"beta_slow":1,"mscale":1.0,"mscale_all_dim":1.0}})"},
    {"baidu/ERNIE-4.5-21B-A3B-PT",
     R"({"model_type":"ernie4_5_moe","num_hidden_layers":28,"hidden_size":2560,"num_attention_heads":20,
      "num_key_value_heads":4,"intermediate_size":12288,"moe_intermediate_size":1536,"moe_num_experts":64,
      "moe_k":6,"moe_num_shared_experts":2,"moe_layer_start_index":1,"moe_layer_interval":1,
      "vocab_size":103424,"max_position_embeddings":131072,"use_bias":false,"tie_word_embeddings":true})"},
    {"tencent/Hunyuan-A13B-Instruct",
     R"({"model_type":"hunyuan_v1_moe","num_hidden_layers":32,"hidden_size":4096,"num_attention_heads":32,
      "num_key_value_heads":8,"head_dim":128,"intermediate_size":3072,"num_experts":64,"moe_topk":8,
      "num_shared_expert":1,"vocab_size":128167,"max_position_embeddings":32768,"use_qk_norm":true,
      "rope_scaling":{"type":"dynamic","alpha":1000.0,"factor":1.0,"beta_fast":32,"beta_slow":1,
      "mscale":1.0,"mscale_all_dim":1.0}})"}};

std::set<std::string> names_of(std::span<const Family> table) {
  std::set<std::string> names;
  for (const Family& family : table) names.insert(std::string(family.architecture));
  return names;
}

/// Architectures of published models: those that are executed in `executed`, all in `known`.
void judge(std::set<std::string>& executed, std::set<std::string>& known) {
  std::set<std::string> listed;
  const auto add = [&](const ModelConfig& model) {
    known.insert(model.architecture);
    if (is_executed(model)) executed.insert(model.architecture);
  };
  for (const PublishedModel& published : kPublished) {
    const ModelConfig model = parse_model_config(published.config, published.name);
    add(model);
    listed.insert(model.architecture);
  }
  for (const std::string& name : preset_names()) {
    if (!listed.contains(find_preset(name)->architecture)) add(*find_preset(name));
  }
}

/// Names in backquotes of the coverage table's row that begins so.
std::set<std::string> row_of(const std::string& page, const std::string& title) {
  const std::size_t begin = page.find("| " + title);
  const std::string row = page.substr(begin, page.find('\n', begin) - begin);
  std::set<std::string> names;
  const std::regex name("`([a-z0-9_]+)`");
  for (std::sregex_iterator at(row.begin(), row.end(), name), end; at != end; ++at) names.insert((*at)[1]);
  return names;
}

TEST(PublishedFamilies, CoverageSaysWhichAreExecuted) {
  std::set<std::string> executed;
  std::set<std::string> known;
  judge(executed, known);
  std::set<std::string> in_tables = names_of(families());
  in_tables.merge(names_of(recent_families()));
  std::set<std::string> never = in_tables;
  for (const std::string& name : executed) never.erase(name);
  for (const std::string& name : in_tables)
    EXPECT_TRUE(known.contains(name)) << name << ": add a published model to kPublished";

  std::ifstream file(std::string(PLUMBLINE_SOURCE_DIR) + "/bench/README.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(row_of(page, "model families ([page]"), executed);
  EXPECT_EQ(row_of(page, "executed, but for a feature of all published models"), never);
}

}  // namespace
}  // namespace plumbline::published_families_test

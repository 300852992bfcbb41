// Tables of training runs in their one dialect: the meaning of rows, skipped rows and reasons, allowed
// headers.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "analysis/published/dialect/measured_values.hpp"
#include "analysis/published/dialect/row_cells.hpp"
#include "analysis/published/published.hpp"
#include "bench/plan/schedule_makers.hpp"
#include "core/base/error.hpp"
#include "core/config/layer_distribution.hpp"

namespace plumbline::published_dialect_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

PublishedTable table_of(const std::string& csv, const std::string& header = "") {
  PublishedTable table = parse_published(csv, "my_runs", "my_runs.csv");
  table.header = parse_header(header, "my_runs.yaml");
  return table;
}

ComparedTable compared(const std::string& csv, const std::string& header = "") {
  return compare_table(table_of(csv, header), built_in_profiles(), schedule_makers());
}

constexpr const char* kHeader =
    "defaults:\n  hardware: h100-sxm-80gb\n  software: torchtitan-compile\n  model: llama-3.1-8b\n"
    "  seq_length: 8192\n  zero_stage: 3\n  mbs: 2\n";

TEST(PublishedDialect, ARowIsAConfigurationAndItsMeasuredValues) {
  const PublishedTable table = table_of(
      "label,gpus,tensor-model-parallel-size,gbs,mbs,tokens_per_s_per_gpu,peak_gib,note\n"
      "first,16,2,16,,1000,40,in a hurry\n\"a, b \"\"c\"\"\",16,,32,1,2000,,\n",
      kHeader);
  const PublishedRuns read = read_runs(table);
  ASSERT_EQ(read.runs.size(), 2u) << read.skipped.front().reason;
  const RunConfig& config = read.runs[0].config;
  EXPECT_EQ(config.parallel.tensor, 2);
  EXPECT_EQ(config.parallel.data(), 8);
  EXPECT_EQ(config.batch.micro_batch_size, 2) << "an empty cell takes the header's default";
  EXPECT_EQ(config.model.layers, 32);
  EXPECT_EQ(config.machine.software, "torchtitan-compile");
  EXPECT_DOUBLE_EQ(read.runs[0].measured.step_s, 16 * 8192 / (1000.0 * 16));
  EXPECT_DOUBLE_EQ(read.runs[0].measured.peak_bytes, 40.0 * 1024 * 1024 * 1024);
  EXPECT_EQ(read.runs[1].label, "a, b \"c\"");
  EXPECT_EQ(read.runs[1].config.batch.micro_batch_size, 1);
}

// Some of the other flags have become keys.
TEST(PublishedDialect, OtherFlagsThatKeysStandForAreSet) {
  const PublishedTable table = table_of(
      "model,ep,gbs,gpus,step_s,other_flags\n"
      "qwen3-30b-a3b,8,16,16,2,moe_routing real\n"
      "qwen3-30b-a3b,8,16,16,2,moe_routing real;spec\n"
      "qwen3-30b-a3b,8,16,16,2,fp8_dot_product_attention;num_layers_at_end_in_bf16\n",
      "defaults:\n  hardware: h100-sxm-80gb\n  software: megatron-core\n"
      "  seq_length: 4096\n  zero_stage: 1\n  mbs: 1\n  fp8_format: e4m3\n");
  const PublishedRuns read = read_runs(table);
  ASSERT_EQ(read.runs.size(), 3u);
  EXPECT_EQ(read.runs[0].config.mixture.routing, "real");
  EXPECT_TRUE(read.runs[0].unmodelled.empty());
  EXPECT_THAT(read.runs[1].unmodelled, ElementsAre("spec"));
  EXPECT_TRUE(read.runs[2].config.numerics.fp8_dot_product_attention);  // a switch; the other has no number
  EXPECT_THAT(read.runs[2].unmodelled, ElementsAre("num_layers_at_end_in_bf16"));
}

TEST(PublishedDialect, AModelMayBeItsColumns) {
  const PublishedTable table = table_of(
      "model_type,hidden_size,num_hidden_layers,num_attention_heads,vocab_size,position_embedding_type,"
      "swiglu,"
      "normalization,add_bias_linear,tie_word_embeddings,dp,gbs,step_s\n"
      "gpt2,1024,24,16,51200,,,,,,2,4,1\ngpt2,1024,24,16,51200,rope,true,RMSNorm,false,false,2,4,1\n",
      "defaults: {hardware: a100-sxm-80gb, software: megatron-2022, seq_length: 1024, mbs: 1}\n");
  const PublishedRuns read = read_runs(table);
  ASSERT_EQ(read.runs.size(), 2u) << read.skipped.front().reason;
  const ModelConfig& gpt = read.runs[0].config.model;
  EXPECT_EQ(gpt.ffn, 4096);
  EXPECT_EQ(gpt.position.max, 1024);
  EXPECT_TRUE(gpt.embedding.tied && gpt.biases.linear);
  const ModelConfig& changed = read.runs[1].config.model;
  EXPECT_EQ(changed.position.kind, Positions::rotary);
  EXPECT_EQ(changed.activation, Activation::swiglu);
  EXPECT_EQ(changed.norms.kind, Norm::rms);
  EXPECT_FALSE(changed.embedding.tied || changed.biases.linear);
  // Megatron-LM's GPT may have grouped queries; gpt2's config.json has no key for them.
  const std::string shape =
      "model_type,hidden_size,num_hidden_layers,num_attention_heads,vocab_size,dp,gbs,step_s,";
  const std::string header =
      "defaults: {hardware: a100-sxm-80gb, software: megatron-2022, seq_length: 1024, mbs: 1}\n";
  const PublishedRuns grouped =
      read_runs(table_of(shape + "num_key_value_heads,head_dim,mlp_bias\ngpt2,1024,24,16,51200,2,4,1,4,128,\n"
                                 "gpt2,1024,24,16,51200,2,4,1,5,,\ngpt2,1024,24,16,51200,2,4,1,,7,\ngpt2,"
                                 "1024,24,16,51200,2,4,1,,,true\n",
                         header));
  ASSERT_EQ(grouped.runs.size(), 1u);
  EXPECT_EQ(grouped.runs[0].config.model.kv_heads, 4);
  EXPECT_EQ(grouped.runs[0].config.model.head_dim, 128);
  ASSERT_EQ(grouped.skipped.size(), 3u);
  EXPECT_THAT(grouped.skipped[0].reason, HasSubstr("num_key_value_heads: found \"5\", expected a divisor"));
  EXPECT_THAT(grouped.skipped[1].reason, HasSubstr("head_dim: found \"7\", expected an even number"));
  EXPECT_THAT(grouped.skipped[2].reason,
              HasSubstr("mlp_bias: found \"true\", expected none with model_type gpt2"));
  // Nemotron's layers.
  const PublishedRuns nemotron =
      read_runs(table_of(shape + "swiglu,squared_relu,rotary_percent,qk_layernorm,add_bias_linear\n"
                                 "gpt2,1024,24,16,51200,2,4,1,false,true,0.5,true,false\n",
                         header));
  ASSERT_EQ(nemotron.runs.size(), 1u) << nemotron.skipped.front().reason;
  EXPECT_EQ(nemotron.runs[0].config.model.activation, Activation::squared_relu);
  EXPECT_EQ(nemotron.runs[0].config.model.rotary.dim, 32);
  EXPECT_TRUE(nemotron.runs[0].config.model.norms.qk);
  EXPECT_FALSE(nemotron.runs[0].config.model.biases.qkv);
  // Columns over a preset: the proxies of a few layers that people measure.
  const PublishedRuns proxy = read_runs(table_of("num_hidden_layers,gpus,gbs,step_s\n12,8,16,1\n", kHeader));
  ASSERT_EQ(proxy.runs.size(), 1u);
  EXPECT_EQ(proxy.runs[0].config.model.layers, 12);
  EXPECT_EQ(proxy.runs[0].config.model.ffn, 14336);
}

TEST(PublishedDialect, LayersFollowTheRulesThatSourcesGive) {
  const std::string header =
      "defaults: {hardware: a100-sxm-80gb, software: megatron-zero-bubble-1f1b, model_type: gpt2, "
      "hidden_size: 2304, "
      "num_hidden_layers: 22, num_attention_heads: 24, vocab_size: 256000, seq_length: 1024, mbs: 1, dp: "
      "1}\n";
  const PublishedRuns read = read_runs(table_of(
      "pp,num_microbatches,num_layers_per_virtual_pipeline_stage,account_for_embedding_in_pipeline_split,"
      "account_for_loss_in_pipeline_split,layer_distribution,step_s\n"
      "8,24,1,true,true,,1\n8,24,,true,true,,1\n4,8,,,,redistributed,1\n2,8,1,,,,1\n",
      header));
  ASSERT_EQ(read.runs.size(), 4u) << read.skipped.front().reason;
  EXPECT_EQ(read.runs[0].config.parallel.pp.virtual_chunks, 3);
  EXPECT_EQ(read.runs[0].config.parallel.pp.schedule, "interleaved");
  EXPECT_EQ(read.runs[0].config.parallel.pp.layer_distribution, "embedding+loss");
  EXPECT_EQ(layers_per_stage(read.runs[0].config, 24),
            (std::vector<int>{0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0}));
  EXPECT_EQ(layers_per_stage(read.runs[1].config, 8), (std::vector<int>{2, 3, 3, 3, 3, 3, 3, 2}));
  EXPECT_EQ(read.runs[1].config.parallel.pp.schedule, "1f1b");
  // The output layer of 256,000 words counts as 9 layers of 22: (22 + 9) / 4 are 7 or 8, the last has none
  // left.
  EXPECT_EQ(read.runs[2].config.parallel.pp.layer_distribution, "7,8,7,0");
  EXPECT_EQ(read.runs[3].config.parallel.pp.virtual_chunks, 11);
}

struct SkipCase {
  const char* columns;  // besides gpus and gbs
  const char* cells;
  const char* reason;
  bool unreadable;
};

TEST(PublishedDialect, WhatCannotBeReadOrModelledIsSkippedWithItsReason) {
  const SkipCase cases[] = {
      {"step_s,tensor_parallel", "2,2", "unknown column \"tensor_parallel\", expected one such as", true},
      {"step_s,tp", "2,two", "tensor_model_parallel_size: found \"two\", expected a whole number", true},
      {"step_s,mbs", "2,nan", "micro_batch_size: found \"nan\"", true},
      {"step_s,mbs", "2,-4", "micro_batch_size: found \"-4\"", true},
      {"step_s,mbs", "2,1e99", "micro_batch_size: found \"1e99\"", true},
      {"step_s,mbs", "2,3", "global_batch_size: found 16, expected a multiple", true},
      {"step_s,dp", "2,3", "world_size: found 8, expected tensor x pipeline", true},
      {"step_s,tp", "2,3", "world_size: found 8, expected a multiple", true},
      {"step_s,tp,tensor_model_parallel_size", "2,2,4", "found \"2\" and \"4\", expected one value", true},
      {"step_s,model", "2,gpt-7", "\"gpt-7\" is neither a preset nor a file", true},
      {"step_s,model_type", "2,mamba", "found \"mamba\", a model with Mamba layers", true},
      {"step_s,hidden_size", "2,0", "hidden_size: found 0", true},
      {"step_s,num_hidden_layers", "2,24.5", "num_hidden_layers: found 24.5", true},
      {"step_s,num_layers_per_virtual_pipeline_stage", "2,5", "found 5, expected a number by which 32 layers",
       true},
      {"peak_gb,memory", "2,some", "memory: found \"some\", expected maximum, first or last", true},
      {"step_s", "banana", "step_s: found \"banana\", expected a number", true},
      {"step_s", "0", "step_s: found \"0\", expected a number", true},
      {"step_s", "", "no measured value", true},
      {"mfu", "41", "mfu: found \"41\", expected a number", true},
      {"mfu", "0.41", "mfu: found without a peak, expected peak_tflops", true},
      {"model_tflops_per_gpu", "400", "found without a definition of FLOPs, expected flops", true},
      {"model_tflops_per_gpu,flops", "400,mine", "flops: found \"mine\", expected one of megatron-2021",
       true},
      {"step_s,tokens_per_s", "2,1000",
       "contradicts itself: step_s means steps of 2 s, tokens_per_s of 131.1 s", false},
      {"step_s,rotary_percent", "2,0", "rotary_percent: found \"0\", expected a number above 0", true},
      {"step_s,rotary_percent", "2,half", "rotary_percent: found \"half\", expected a number above 0", true},
      {"step_s,squared_relu", "2,1", "squared_relu: found \"1\", expected true or false", true},
      {"step_s,num_microbatches", "2,7", "contradicts itself: global_batch_size 16, 7 micro-batches", false},
      {"step_s,recompute_granularity,recompute_modules", "2,selective,mlp",
       "not modelled yet: recompute_modules", false},
      {"step_s,moe_shared_expert_overlap", "2,true", "not modelled yet: moe_shared_expert_overlap", false},
      {"step_s,ep,num_experts", "2,2,8", "not modelled yet: num_experts with torchtitan-compile", false},
      {"step_s,cpu_offloading_num_layers", "2,16",
       "not modelled yet: cpu_offloading_num_layers 16 with torchtitan-compile", false},
      {"step_s,software,model,ep,frozen", "2,megatron-core,mixtral-8x7b,2,lora",
       "not modelled yet: frozen lora with megatron-core", false},
      {"step_s,software,cp,cp_comm_type,num_key_value_heads", "2,megatron-core,4,a2a,2",
       "not modelled yet: cp_comm_type of few heads with megatron-core", false},
      {"step_s,software,cpu_offloading_num_layers", "2,plumbline,32", "cpu_offloading_num_layers: found 32",
       true},
      {"step_s,ep", "2,2", "not modelled yet: expert_model_parallel_size", false},
      {"step_s,hardware", "2,b300-sxm", "not modelled yet: hardware b300-sxm", false},
      {"step_s,software", "2,my-framework", "not modelled yet: software my-framework", false},
      {"step_s,precision", "2,fp8", "not modelled yet: fp8_recipe delayed with", false},
      {"step_s,precision,fp8_recipe", "2,fp8,unstated", "not modelled yet: fp8_recipe unstated", false},
      {"step_s,num_experts,model", "2,8,mixtral-8x7b", "not modelled yet: num_experts", false},
      {"step_s,num_experts", "2,unstated", "not modelled yet: num_experts", false},
      {"step_s,num_experts", "2,many", "num_experts: found \"many\", expected a number from 0", true},
      {"step_s,num_experts,moe_layer_freq", "2,8,[1]*30", "moe_layer_freq: found \"[1]*30\", expected 1, or",
       true},
      {"step_s,num_experts,moe_layer_freq", "2,8,([0]*3+[1]*30)", "expected 1, or ([0]*d+[1]*m)", true},
      {"step_s,num_experts,moe_layer_freq", "2,8,([0]*-3+[1]*35)", "expected 1, or ([0]*d+[1]*m)", true},
      {"step_s,num_experts,moe_expert_capacity_factor", "2,8,1", "moe_expert_capacity_factor", false},
      {"step_s,multi_latent_attention", "2,true", "not modelled yet: multi_latent_attention", false},
      {"step_s,multi_latent_attention,kv_lora_rank", "2,true,512", "qk_head_dim: missing", true},
  };
  for (const SkipCase& c : cases) {
    const std::string text = fmt::format("gpus,gbs,{}\n8,16,{}\n", c.columns, c.cells);
    const ComparedTable table = compared(text, kHeader);
    EXPECT_TRUE(table.rows.empty()) << text;
    ASSERT_EQ(table.skipped.size(), 1u) << text;
    const SkippedRow& row = table.skipped.front();
    EXPECT_EQ(row.row, 1);
    EXPECT_THAT(row.reason, HasSubstr(c.reason)) << text;
    EXPECT_THAT(row.reason, testing::Not(HasSubstr("\n")));
    EXPECT_EQ(row.unreadable, c.unreadable) << row.reason;
  }
  // A feature's column with the value that means "without it", and rows alongside a bad one, count.
  const ComparedTable table =
      compared("gpus,gbs,step_s,moe_shared_expert_overlap,num_experts\n8,x,2,,\n8,16,2,false,0\n", kHeader);
  EXPECT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(table.skipped.size(), 1u);
  EXPECT_EQ(unmodelled_features({compared("gpus,gbs,step_s,ep\n8,16,2,2\n8,16,2,4\n", kHeader)}),
            (std::map<std::string, int>{{"expert_model_parallel_size", 2}}));
}

/// A file of one's own that copies an accelerator predicts what its name does.
TEST(PublishedDialect, HardwareMayBeAnAcceleratorsFile) {
  const std::string path = testing::TempDir() + "published_dialect_test.json";
  std::ofstream(path) << R"({"name": "mine", "like": "h100-sxm-80gb", "constants": {}})";
  const auto row = [&](const std::string& hardware) {
    return compared("gpus,gbs,step_s,hardware\n8,16,2," + hardware + "\n", kHeader);
  };
  const ComparedTable mine = row(path), named = row("h100-sxm-80gb");
  ASSERT_EQ(mine.rows.size(), 1u) << mine.skipped.front().reason;
  EXPECT_EQ(mine.rows.front().predicted, named.rows.front().predicted);
  EXPECT_EQ(mine.rows.front().traits.hardware, path);
  EXPECT_THAT(row("/nowhere/mine.json").skipped.front().reason, HasSubstr("/nowhere/mine.json"));
  std::ofstream(path) << "{}";
  EXPECT_TRUE(row(path).skipped.front().unreadable);
}

TEST(PublishedDialect, ATableWithoutMeasuredValuesHasNoReader) {
  const ComparedTable table = compared("a,b\n1,2\n");
  ASSERT_EQ(table.skipped.size(), 1u);
  EXPECT_EQ(table.skipped.front().row, 0);
  EXPECT_THAT(table.skipped.front().reason, HasSubstr("no reader for this table"));
  EXPECT_TRUE(table.skipped.front().unreadable);  // so that `validate` ends with 2
}

TEST(PublishedDialect, FlopsAreThoseOfTheNamedDefinition) {
  const auto step_of = [](const std::string& rate) {
    const PublishedRuns read = read_runs(table_of(
        "gpus,gbs," + rate.substr(0, rate.find('=')) + "\n8,16," + rate.substr(rate.find('=') + 1) + "\n",
        std::string(kHeader) + "flops: causal-attention\npeak_tflops: 989\n"));
    return read.runs.at(0).measured.step_s;
  };
  // Llama 3 8B at 8192 tokens: 51.47 GFLOP per token.
  const double flops = 16 * 8192 * 51.47e9;
  EXPECT_NEAR(step_of("model_tflops_per_gpu=400"), flops / (400e12 * 8), 1e-3 * flops / (400e12 * 8));
  EXPECT_NEAR(step_of("mfu_percent=40"), flops / (0.4 * 989e12 * 8), 1e-3 * flops / (0.4 * 989e12 * 8));
  EXPECT_DOUBLE_EQ(step_of("mfu=0.4"), step_of("mfu_percent=40"));
  EXPECT_DOUBLE_EQ(step_of("samples_per_s=4"), 4);
  EXPECT_DOUBLE_EQ(step_of("samples_per_s_per_gpu=0.5"), 4);
  // GPT-3 as arXiv:2104.04473 table 2 prints it: 153 TFLOP/s on 384 A100s are 84 days for 300 B tokens.
  RunConfig config;
  config.model = *find_preset("gpt3-175b");
  config.model.vocab = 51200;
  config.batch = {2048, 1, 1536};
  const double step = step_flops("megatron-2021-recompute", config, "t") / (153e12 * 384);
  EXPECT_NEAR(step * 300e9 / (1536 * 2048) / 86400, 84, 0.9);
  EXPECT_NEAR(step_flops("megatron-2021", config, "t") / step_flops("megatron-2021-recompute", config, "t"),
              0.75, 0.002);
  // 6 per weight, half of the square for a causal mask and all of it without.
  const double causal = step_flops("causal-attention", config, "t");
  const double full = step_flops("full-attention", config, "t");
  EXPECT_NEAR((full - causal) / (1536.0 * 2048), 6.0 * 96 * 12288 * 2048, 1);
  EXPECT_NEAR((step_flops("palm", config, "t") - full) / (1536.0 * 2048 * 6 * 12288),
              2048 + 13 * 96 + 2.0 * 96 + 2,
              3.0 * 96);  // positions, biases and norms
}

TEST(PublishedDialect, AHeaderExplainsTheColumnsOfASourcesOwnFile) {
  const std::string header = std::string(kHeader) +
                             "columns:\n"
                             "  \"# GPUs\": gpus\n  nothing: ~\n"
                             "  time (ms): {key: step_s, scale: 0.001}\n"
                             "  kind: {values: {plain: {gbs: 16}, big: {gbs: 32, tp: 2}}}\n"
                             "label: \"{gpus} GPUs, {global_batch_size}\"\nsweep: \"{gpus}\"\n";
  const PublishedTable table =
      table_of("# GPUs,kind,time (ms),nothing\n8,plain,1500,x\n8,big,2500,\n8,other,1,\n", header);
  const PublishedRuns read = read_runs(table);
  ASSERT_EQ(read.runs.size(), 2u);
  EXPECT_DOUBLE_EQ(read.runs[0].measured.step_s, 1.5);
  EXPECT_EQ(read.runs[0].label, "8 GPUs, 16");
  EXPECT_EQ(read.runs[1].config.parallel.tensor, 2);
  EXPECT_EQ(read.runs[1].sweep, "8");
  ASSERT_EQ(read.skipped.size(), 1u);
  EXPECT_THAT(read.skipped[0].reason,
              HasSubstr("kind: found \"other\", expected one of those that my_runs.yaml"));
  // Several runs in a row.
  const std::string runs = std::string(kHeader) +
                           "runs:\n  - {defaults: {tp: 1}, columns: {t1: step_s}}\n"
                           "  - {defaults: {tp: 2}, columns: {t2: step_s}}\n";
  const PublishedRuns both = read_runs(table_of("gpus,gbs,t1,t2\n8,16,2,3\n", runs));
  ASSERT_EQ(both.runs.size(), 2u);
  EXPECT_EQ(both.runs[1].config.parallel.tensor, 2);
  EXPECT_DOUBLE_EQ(both.runs[1].measured.step_s, 3);
}

TEST(PublishedDialect, DamagedFilesAreRefusedInOneLine) {
  for (const char* header :
       {"a: [", "- 1", "defaults: 3", "defaults: {tp: [1, 2]}", "columns: {a: 3}", "columns: {a: {key: 3}}",
        "columns: {a: {scale: x, key: step_s}}", "columns: {a: {values: {x: 1}}}", "runs: 3", "runs: [3]",
        "titel: x", "label: {a: b}", "a: &a [*a, *a]", "--- \n---\na: b", "runs: [{colums: {}}]"}) {
    try {
      parse_header(header, "t.yaml");
      FAIL() << header;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), testing::StartsWith("t.yaml")) << header;
      EXPECT_THAT(std::string(error.what()), testing::Not(HasSubstr("\n")));
    }
  }
  EXPECT_THROW(parse_header(std::string(1 << 20, '#'), "t.yaml"), InputError);
  EXPECT_THROW(parse_published("a,b\n\"1,2\n", "t", "t"), InputError);
  EXPECT_THROW(parse_published("a,b\n\"1\"x,2\n", "t", "t"), InputError);
  EXPECT_THAT(parse_published("a,b\n \"1,\"\"2\" ,\"\"\n", "t", "t").rows,
              ElementsAre(ElementsAre("1,\"2", "")));
}

/// The converted tables match their sources' own files.
TEST(PublishedDialect, TheSourcesOwnFilesGiveTheSameErrors) {
  const std::string folder = std::string(PLUMBLINE_SOURCE_DIR) + "/../shared/published";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is absent";
  const std::vector<PublishedTable> own = read_tables(folder);
  int tables = 0;
  for (const PublishedTable& table : built_in_tables()) {
    const auto same =
        std::find_if(own.begin(), own.end(), [&](const auto& each) { return each.name == table.name; });
    if (same == own.end() || !holds_runs(table)) continue;
    ++tables;
    const ComparedTable ours = compare_table(table, built_in_profiles(), schedule_makers());
    const ComparedTable theirs = compare_table(*same, built_in_profiles(), schedule_makers());
    ASSERT_EQ(ours.rows.size(), theirs.rows.size()) << table.name;
    EXPECT_EQ(ours.skipped.size(), theirs.skipped.size()) << table.name;
    for (std::size_t row = 0; row < ours.rows.size(); ++row) {
      EXPECT_EQ(ours.rows[row].predicted, theirs.rows[row].predicted)
          << table.name << ' ' << ours.rows[row].label;
      EXPECT_DOUBLE_EQ(ours.rows[row].published, theirs.rows[row].published) << table.name;
    }
  }
  EXPECT_EQ(tables, 7);
  for (const PublishedTable& table : own) {
    if (!table.name.starts_with("vtrain")) continue;
    const ComparedTable compared = compare_table(table, built_in_profiles(), schedule_makers());
    EXPECT_TRUE(compared.skipped.empty()) << compared.skipped.front().reason;
    EXPECT_EQ(compared.rows.size(), table.rows.size());
    EXPECT_TRUE(compared.regret);
  }
}

}  // namespace
}  // namespace plumbline::published_dialect_test

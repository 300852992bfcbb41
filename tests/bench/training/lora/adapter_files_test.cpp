// Adapters of PEFT as files: read, or refused by the name of what the run does not have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/training/trainer/run_files.hpp"
#include "core/config_text/load_config.hpp"
#include "core/files/safetensors.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/temporary_folder.hpp"

namespace plumbline::training::adapter_files_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A copy of golden/lora/llama_canonical, which PEFT made, and a run that starts from it.
class AdapterFiles : public testing::Test, protected test::TemporaryFolder {
 protected:
  void SetUp() override {
    const std::string golden = std::string(PLUMBLINE_SOURCE_DIR) + "/tests/golden/lora/llama_canonical";
    for (const char* name : {"adapter_config.json", "adapter_model.safetensors"})
      fs::copy_file(fs::path(golden) / name, at(name));
    config_ = load_run_config(golden + "/run.yaml", {});
    config_.files.lora_weights = folder_.string();
    written_ = json::parse(read("adapter_config.json"));
  }
  std::string complaint() const {
    return test::refusal_of([&] { check_files(config_); });
  }
  /// With one key of adapter_config.json changed.
  std::string complaint_about(const std::string& key, const json& value) const {
    json changed = written_;
    changed[key] = value;
    write("adapter_config.json", changed.dump());
    return complaint();
  }
  RunConfig config_;
  json written_;
};

struct Changed {
  const char* key;
  const char* value;  // JSON
};

TEST_F(AdapterFiles, KeysThatChangeNothingAreRead) {
  // The second half is what PEFT 0.21.2 writes for a plain adapter.
  for (const Changed& each :
       {Changed{"target_modules", R"("all-linear")"},
        Changed{"target_modules", R"(["q_proj","k_proj","v_proj","o_proj","gate_proj",
                                                            "up_proj","down_proj"])"},
        Changed{"target_modules", R"(["model.layers.0.self_attn.q_proj",
        "layers.1.self_attn.q_proj","k_proj","v_proj","o_proj","gate_proj","up_proj","mlp.down_proj","other"])"},
        Changed{"base_model_name_or_path", R"("meta-llama/x")"}, Changed{"task_type", "null"},
        Changed{"inference_mode", "true"}, Changed{"init_lora_weights", R"("gaussian")"},
        Changed{"fan_in_fan_out", "true"}, Changed{"init_lora_weights", "true"},
        Changed{"modules_to_save", "null"}, Changed{"rank_pattern", "{}"}, Changed{"loftq_config", "{}"},
        Changed{"megatron_core", R"("megatron.core")"}, Changed{"use_dora", "false"},
        Changed{"qalora_group_size", "16"}, Changed{"lora_dropout", "0.0"},
        Changed{"peft_version", R"("0.21.2")"}, Changed{"bias", R"("none")"}}) {
    EXPECT_EQ(complaint_about(each.key, json::parse(each.value)), "accepted") << each.key << each.value;
  }
}

TEST_F(AdapterFiles, FeaturesThatAreNotExecutedAreRefusedByName) {
  for (const Changed& each : {Changed{"use_dora", "true"},
                              Changed{"modules_to_save", R"(["lm_head"])"},
                              Changed{"peft_type", R"("IA3")"},
                              Changed{"peft_type", "null"},
                              Changed{"bias", R"("all")"},
                              Changed{"bias", R"("lora_only")"},
                              Changed{"lora_bias", "true"},
                              Changed{"layers_to_transform", "[0]"},
                              Changed{"layers_to_transform", "1"},
                              Changed{"rank_pattern", R"({"q_proj":8})"},
                              Changed{"alpha_pattern", R"({"q_proj":8})"},
                              Changed{"exclude_modules", R"(["k_proj"])"},
                              Changed{"layer_replication", "[[0,2]]"},
                              Changed{"init_lora_weights", R"("pissa")"},
                              Changed{"init_lora_weights", R"("pissa_niter_4")"},
                              Changed{"init_lora_weights", R"("olora")"},
                              Changed{"init_lora_weights", R"("loftq")"},
                              Changed{"init_lora_weights", R"("corda")"},
                              Changed{"use_qalora", "true"},
                              Changed{"trainable_token_indices", "[1]"},
                              Changed{"target_parameters", R"(["x"])"},
                              Changed{"task_type", R"("SEQ_CLS")"},
                              Changed{"a_feature_of_2030", "true"},
                              Changed{"target_modules", "null"},
                              Changed{"target_modules", R"(".*_proj")"},
                              Changed{"target_modules", R"(["q_proj","v_proj"])"},
                              Changed{"target_modules", R"(["q_proj","k_proj","v_proj","lm_head"])"},
                              Changed{"target_modules", R"(["layers.0.self_attn.q_proj","k_proj","v_proj"])"},
                              Changed{"target_modules", "[]"},
                              Changed{"r", R"("4")"},
                              Changed{"r", "0"},
                              Changed{"lora_alpha", "-1"}}) {
    EXPECT_THAT(complaint_about(each.key, json::parse(each.value)),
                AllOf(HasSubstr("adapter_config.json: " + std::string(each.key) + ": "),
                      HasSubstr("expected "), Not(HasSubstr("json.exception"))))
        << each.value;
  }
}

// The advice is followed, and works.
TEST_F(AdapterFiles, KeysOfTheRunMustAgreeWithTheFile) {
  config_.finetune.lora_rank = 16;
  EXPECT_THAT(complaint(), AllOf(HasSubstr("lora_rank: found 16, expected 4"), HasSubstr("set lora_rank 4")));
  config_.finetune.lora_rank = 4;
  config_.finetune.lora_alpha = 32;
  EXPECT_THAT(complaint(), HasSubstr("lora_alpha: found 32, expected 10"));
  config_.finetune.lora_alpha = 10;
  config_.finetune.lora_targets = LoraTargets::qkv;
  EXPECT_THAT(complaint(), HasSubstr("lora_targets: found qkv, expected all"));
  config_.finetune.lora_targets = LoraTargets::all;
  EXPECT_EQ(complaint(), "accepted");
  EXPECT_THAT(complaint_about("use_rslora", true),
              AllOf(HasSubstr("lora_alpha: found 10, expected 20"), HasSubstr("use_rslora")));
  config_.finetune.lora_alpha = 20;
  EXPECT_EQ(complaint(), "accepted");
  config_.finetune.frozen = Frozen::lora;
  EXPECT_THAT(complaint(), AllOf(HasSubstr("found another A"), HasSubstr("set frozen canonical_lora")));
}

TEST_F(AdapterFiles, DropoutIsNamed) {
  EXPECT_THAT(check_files(config_), IsEmpty());
  complaint_about("lora_dropout", 0.1);
  EXPECT_THAT(check_files(config_), ElementsAre(HasSubstr("lora_dropout: found 0.1, without effect")));
}

TEST_F(AdapterFiles, WithoutTheirDescriptionAreRefused) {
  fs::remove(at("adapter_config.json"));
  EXPECT_THAT(complaint(),
              AllOf(HasSubstr("lora_weights: found "), HasSubstr("without adapter_config.json")));
  for (const char* text : {"", "[]", "{", "{\"r\": 4"}) {
    write("adapter_config.json", text);
    EXPECT_THAT(complaint(), HasSubstr("adapter_config.json")) << text;
  }
}

/// The file's tensors, without those whose names have `dropped` in them, and with one more called `added`.
void rewrite(const std::string& path, const std::string& dropped, const std::string& added) {
  const TensorFile old(path);
  std::vector<TensorFileWriter::Entry> entries;
  for (const std::string& name : old.names())
    if (dropped.empty() || name.find(dropped) == std::string::npos)
      entries.push_back({name, StoredType::fp32, old.get(name).shape});
  if (!added.empty()) entries.push_back({added, StoredType::fp32, {4}});
  TensorFileWriter writer(path + ".new", entries);
  const std::vector<float> one(4, 1.0F);
  for (const TensorFileWriter::Entry& each : entries)
    writer.write(each.name, each.name == added ? std::as_bytes(std::span(one)) : old.get(each.name).bytes);
  writer.finish();
  fs::rename(path + ".new", path);
}

TEST_F(AdapterFiles, TensorsWithoutAPlaceAndMissingOnesAreNamed) {
  const std::string file = at("adapter_model.safetensors");
  const std::string copy = at("copy");
  fs::copy_file(file, copy);
  for (const char* added :
       {"base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector",
        "base_model.model.lm_head.weight", "base_model.model.model.layers.0.self_attn.q_proj.lora_B.bias",
        "base_model.model.model.layers.0.mlp.down_proj.ia3_l",
        "base_model.model.model.layers.7.self_attn.q_proj.lora_A.weight"}) {
    rewrite(file, "", added);
    EXPECT_THAT(complaint(), AllOf(HasSubstr(added), HasSubstr("no place for"))) << added;
    fs::copy_file(copy, file, fs::copy_options::overwrite_existing);
  }
  rewrite(file, "layers.1.self_attn.k_proj.lora_B", "");
  EXPECT_THAT(complaint(), AllOf(HasSubstr("k_proj.lora_B"), HasSubstr("missing")));
}

}  // namespace
}  // namespace plumbline::training::adapter_files_test

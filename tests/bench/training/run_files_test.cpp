// The files of a run, checked before it: no tensor of a checkpoint is misused or silently left out.
#include "bench/training/trainer/run_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "bench/training/weights/weight_files.hpp"
#include "core/base/error.hpp"
#include "core/files/safetensors.hpp"
#include "tests/bench/training/support/training_support.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/temporary_folder.hpp"

namespace plumbline::training::run_files_test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kHidden = 8;
constexpr std::int64_t kVocab = 16;

/// A tied llama of one layer.
ModelConfig tiny_llama() {
  ModelConfig model;
  model.name = "tiny";
  model.architecture = "llama";
  model.layers = 1;
  model.hidden = kHidden;
  model.heads = model.kv_heads = 2;
  model.head_dim = 4;
  model.ffn = 8;
  model.vocab = kVocab;
  model.position.max = 32;
  model.embedding.tied = true;
  return model;
}

struct Stored {
  std::string name;
  std::vector<std::int64_t> shape;
  float value = 0.5F;
  StoredType type = StoredType::fp32;
};

std::vector<Stored> tensors_of_tiny_llama() {
  const std::string layer = "model.layers.0.";
  std::vector<Stored> list = {{"model.embed_tokens.weight", {kVocab, kHidden}},
                              {"model.norm.weight", {kHidden}}};
  for (const char* norm : {"input_layernorm.weight", "post_attention_layernorm.weight"})
    list.push_back({layer + norm, {kHidden}});
  for (const char* product :
       {"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight",
        "self_attn.o_proj.weight", "mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight"})
    list.push_back({layer + product, {kHidden, kHidden}});
  return list;
}

class RunFilesTest : public testing::Test, protected test::TemporaryFolder {
 protected:
  void SetUp() override {
    config_.model = tiny_llama();
    config_.batch.seq_length = 4;
    config_.files.weights = path("model.safetensors");
  }
  std::string path(const std::string& name) const { return at(name); }

  void write(const std::vector<Stored>& tensors) const {
    std::vector<TensorFileWriter::Entry> entries;
    for (const Stored& each : tensors) entries.push_back({each.name, each.type, each.shape});
    TensorFileWriter writer(path("model.safetensors"), entries);
    for (const Stored& each : tensors) {
      std::int64_t elements = 1;
      for (const std::int64_t size : each.shape) elements *= size;
      const std::vector<float> values(static_cast<std::size_t>(elements),
                                      each.value);  // four bytes of any type
      writer.write(each.name, std::as_bytes(std::span(values)));
    }
    writer.finish();
  }
  std::string complaint() const {
    try {
      return test::refusal_of([&] { check_files(config_); });
    } catch (const OutputError& error) {
      return error.what();
    }
  }
  RunConfig config_;
};

TEST_F(RunFilesTest, ACheckpointOfTheModelIsTakenAsItIs) {
  write(tensors_of_tiny_llama());
  EXPECT_THAT(check_files(config_), IsEmpty());
}

TEST_F(RunFilesTest, ASecondOutputLayerBesideTiedEmbeddingsMustBeTheSame) {
  std::vector<Stored> tensors = tensors_of_tiny_llama();
  tensors.push_back({"lm_head.weight", {kVocab, kHidden}});
  write(tensors);
  EXPECT_THAT(check_files(config_), IsEmpty());  // older versions of transformers saved both
  tensors.back().value = 0.25F;
  write(tensors);
  EXPECT_THAT(complaint(),
              HasSubstr("lm_head.weight: found values other than those of model.embed_tokens.weight"));
  EXPECT_THAT(complaint(), HasSubstr("tie_word_embeddings"));
  config_.model.embedding.tied = false;
  EXPECT_EQ(complaint(), "accepted");
}

TEST_F(RunFilesTest, TensorsWithoutAPlaceAreNamed) {
  std::vector<Stored> tensors = tensors_of_tiny_llama();
  tensors.push_back({"model.layers.0.self_attn.q_norm.weight", {4}});
  tensors.push_back({"model.layers.0.self_attn.q_proj.bias", {kHidden}});
  tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", {2}});  // a buffer
  write(tensors);
  EXPECT_THAT(check_files(config_),
              ElementsAre(AllOf(HasSubstr("holds 2 tensors"), HasSubstr("q_norm.weight"),
                                HasSubstr("q_proj.bias"), HasSubstr("not used"))));
}

TEST_F(RunFilesTest, WholeNumbersAreNoWeights) {
  std::vector<Stored> tensors = tensors_of_tiny_llama();
  tensors.back().type = StoredType::int32;
  write(tensors);
  EXPECT_THAT(complaint(),
              HasSubstr("mlp.down_proj.weight holds whole numbers (I32), expected weights as F32"));
}

TEST_F(RunFilesTest, WhatIsMissingOrCannotBeWrittenIsSaidBefore) {
  EXPECT_THAT(complaint(), HasSubstr("model.safetensors"));
  std::vector<Stored> tensors = tensors_of_tiny_llama();
  tensors.pop_back();
  write(tensors);
  EXPECT_THAT(complaint(), HasSubstr("\"model.layers.0.mlp.down_proj.weight\": missing"));
  tensors = tensors_of_tiny_llama();
  tensors.back().shape = {kHidden, kHidden + 1};
  write(tensors);
  EXPECT_THAT(complaint(), HasSubstr("found shape [8, 9], expected [8, 8]"));
  write(tensors_of_tiny_llama());
  config_.files.data = path("none.npy");
  EXPECT_THAT(complaint(), HasSubstr("none.npy"));
  config_.files.data.clear();
  config_.files.save_gradients = folder_.string();
  EXPECT_THAT(complaint(), HasSubstr("is a folder, expected a file to write"));
  config_.files.save_gradients = path("no/g.safetensors");
  EXPECT_THAT(complaint(), HasSubstr("save_gradients: "));
  config_.files.save_gradients.clear();
  config_.files.save_weights = path("no/such/folder");
  EXPECT_THAT(complaint(), HasSubstr("save_weights: "));
  config_.files.save_weights = path("new/");
  EXPECT_EQ(complaint(), "accepted");
}

TEST_F(RunFilesTest, WeightsAreSavedWithTheFilesOfTheirSource) {
  const auto put = [&](const std::string& name, const std::string& text) {
    std::ofstream(path(name)) << text;
  };
  const std::string sizes =
      R"("model_type": "llama", "num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 2,)"
      R"( "intermediate_size": 8, "vocab_size": 16, "max_position_embeddings": 32,)"
      R"( "tie_word_embeddings": true)";
  put("config.json", "{\"eos_token_id\": 7, " + sizes + "}");
  put("tokenizer.json", "{}");
  put("generation_config.json", "{\"eos_token_id\": 7}");
  config_.model = load_model_config(path("config.json"));
  const auto names = [&] {
    std::vector<std::string> found;
    for (const convert::PlannedText& each : saved_model(config_).companions) found.push_back(each.path);
    return found;
  };
  const auto both = ElementsAre("generation_config.json", "tokenizer.json");
  EXPECT_THAT(saved_model(config_).config, HasSubstr("\"eos_token_id\": 7"));
  EXPECT_THAT(names(), both);
  // A rank, which is given the model's keys and its name.
  config_.model.source.file.clear();
  EXPECT_THAT(names(), both);
  config_.model.name = folder_.string();
  EXPECT_THAT(names(), both);
  // A preset, or a model that is written out, which begins with the weights of such a folder.
  config_.model.name = "inline";
  EXPECT_THAT(names(), IsEmpty());
  config_.files.weights = folder_.string();
  EXPECT_THAT(names(), both);
  // Another model's file is no source.
  put("config.json", "{\"hidden_act\": \"gelu_new\", " + sizes + "}");
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_THAT(saved_model(config_).config, HasSubstr("\"eos_token_id\": null"));
}

TEST_F(RunFilesTest, TheEmulatedBackendSaysThatItReadsNothing) {
  config_.machine.backend = Backend::emulated;
  config_.files.data = path("none.npy");
  EXPECT_THAT(check_files(config_), ElementsAre(HasSubstr("weights: not read"), HasSubstr("data: not read")));
  config_.files.save_weights = path("new");
  EXPECT_THAT(complaint(), HasSubstr("computes no values"));
}

}  // namespace
}  // namespace plumbline::training::run_files_test

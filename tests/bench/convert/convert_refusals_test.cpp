// Checkpoints that cannot be converted: one line with the reason, and nothing is written.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <functional>

#include "core/base/error.hpp"
#include "core/checkpoints/torch_file.hpp"
#include "tests/bench/convert/convert_folder.hpp"

namespace plumbline::convert::convert_refusals_test {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;
using Tensors = std::map<std::string, StoredTensor>;

constexpr const char* kRank = "m/iter_0000001/mp_rank_01_000/model_optim_rng.pt";

class ConvertRefusalsTest : public ConvertFolder {
 protected:
  /// A llama in Hugging Face's layout as "hf", and as "m" for two tensor and two pipeline ranks.
  void start() {
    for (const char* folder : {"hf", "m", "out", "out.partial"}) fs::remove_all(at(folder));
    make("hf", llama_config(2));
    MegatronTarget target;
    target.sizes = {2, 2, 1, 1};
    convert("hf", "m", target);
  }
  /// Changes the tensors of one rank.
  void change(const std::function<void(Tensors&)>& how) const {
    const TorchFile file(at(kRank));
    Tensors tensors = file.tensors("model");
    how(tensors);
    rewrite(kRank, tensors);
  }
  ConvertRequest request(const std::string& from) const {
    ConvertRequest made;
    made.from = at(from);
    made.to = at("out");
    return made;
  }
};

TEST_F(ConvertRefusalsTest, DamagedMegatronCheckpoints) {
  struct Case {
    std::function<void()> damage;
    const char* says;
  };
  const std::vector<Case> cases = {
      {[&] { fs::remove_all(at("m/iter_0000001/mp_rank_01_001")); },
       "mp_rank_01_001/model_optim_rng.pt is missing, of 2 tensor, 2 pipeline"},
      {[&] { fs::remove(at(kRank)); }, "mp_rank_01_000/model_optim_rng.pt is missing"},
      {[&] { fs::remove_all(at("m/iter_0000001")); }, "names iter_0000001, which is missing"},
      {[&] { write("m/latest_checkpointed_iteration.txt", "last"); },
       "found \"last\", expected the number of an iteration"},
      {[&] { fs::create_directory(at("m/iter_0000001/mp_rank_00")); }, "of different kinds"},
      {[&] { write("m/iter_0000001/metadata.json", "{}"); },
       "torch_dist checkpoint, but .metadata is missing"},
      {[&] {
         change([](Tensors& t) {
           StoredTensor& table = t["embedding.word_embeddings.weight"];
           table.shape = {std::int64_t{1} << 40, 0};
           table.bytes = {};
         });
       },
       "embedding.word_embeddings.weight has shape [1099511627776, 0]"},
      {[&] { fs::remove(at("m/config.json")); },
       "holds no config.json; expected one, or the model as --model"},
      {[&] { write("m/config.json", llama_config(4)); }, "holds 2 layers, expected the 4 of the model"},
      {[&] { write("m/config.json", family_configs(2)[1]); }, "layers.0."},
      {[&] { fs::resize_file(at(kRank), fs::file_size(at(kRank)) / 2); }, "no zip archive"},
      {[&] {
         write(kRank,
               "\x80\x02"
               "cos\nsystem\n.");
       },
       "before PyTorch 1.6"},
      {[&] { change([](Tensors& t) { t.erase("decoder.layers.0.mlp.linear_fc1.weight"); }); },
       "tensor \"decoder.layers.0.mlp.linear_fc1.weight\": missing"},
      {[&] { change([](Tensors& t) { t.erase("embedding.word_embeddings.weight"); }); },
       "tensor \"embedding.word_embeddings.weight\": missing"},
      {[&] { change([](Tensors& t) {
               t["decoder.layers.0.mlp.linear_fc1.weight"].shape = {32, 48};
             }); },
       "has shape [32, 48], expected [48, 32]"},
      {[&] {
         change([](Tensors& t) {
           std::swap(t["decoder.layers.0.self_attention.linear_qkv.layer_norm_weight"].bytes,
                     t["decoder.layers.0.mlp.linear_fc1.layer_norm_weight"].bytes);
         });
       },
       "differs from decoder.layers.0."},
      {[&] {
         change([](Tensors& t) {
           StoredTensor& fc1 = t["decoder.layers.0.mlp.linear_fc1.weight"];
           fc1.type = StoredType::fp16;
         });
       },
       "expected one type"},
      {[&] {
         change([](Tensors& t) {
           StoredTensor& norm = t["decoder.layers.0.mlp.linear_fc1.layer_norm_weight"];
           norm = t["decoder.layers.0.mlp.linear_fc1.weight"];
           norm.type = StoredType::int32;
           norm.shape = {32};
           norm.bytes = norm.bytes.first(128);
         });
       },
       "holds whole numbers (I32)"},
  };
  for (const Case& each : cases) {
    start();
    each.damage();
    const std::string said = complaint(request("m"));
    EXPECT_THAT(said, HasSubstr(each.says));
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
    EXPECT_FALSE(fs::exists(at("out"))) << each.says;
    EXPECT_FALSE(fs::exists(at("out.partial"))) << each.says;
  }
}

TEST_F(ConvertRefusalsTest, DamagedHuggingFaceCheckpoints) {
  struct Case {
    std::function<void()> damage;
    const char* says;
  };
  const std::vector<Case> cases = {
      {[&] { fs::remove(at("hf/model.safetensors")); }, "holds neither model.safetensors"},
      {[&] { fs::remove_all(at("hf")); }, "not a folder"},
      {[&] { fs::resize_file(at("hf/model.safetensors"), 1000); }, "truncated"},
      {[&] { write("hf/config.json", llama_config(3)); },
       "tensor \"model.layers.2.input_layernorm.weight\": missing"},
      {[&] { write("hf/config.json", "{"); }, "config.json"},
      {[&] {
         const std::string plain = llama_config(2);
         write("hf/config.json", plain.substr(0, plain.size() - 1) + R"(,"attention_bias":true})");
       },
       "Megatron-Core has no bias of attention's or the MLP's output alone; expected a model without"},
      {[&] {
         fs::remove(at("hf/model.safetensors"));
         write("hf/pytorch_model.bin.index.json", R"({"weight_map":{"a":"../x.bin"}})");
       },
       "expected the name of a .bin file in the same folder"},
      {[&] {
         fs::remove(at("hf/model.safetensors"));
         write("hf/pytorch_model.bin.index.json", R"({"weight_map":{"a":"x.bin"}})");
       },
       "x.bin: No such file"},
  };
  for (const Case& each : cases) {
    start();
    each.damage();
    const std::string said = complaint(request("hf"));
    EXPECT_THAT(said, HasSubstr(each.says));
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
    EXPECT_FALSE(fs::exists(at("out")));
  }
}

TEST_F(ConvertRefusalsTest, WhatMegatronDoesNotHaveOrDoesNotSplit) {
  struct Case {
    std::string config;
    MegatronSizes sizes;
    const char* says;
  };
  const std::string bloom =
      R"({"model_type":"bloom","n_layer":2,"hidden_size":32,"n_head":4,"vocab_size":61})";
  const std::string falcon =
      R"({"model_type":"falcon","num_hidden_layers":2,"hidden_size":32,"num_attention_heads":4,)"
      R"("vocab_size":61})";
  const auto recent = [](const char* type, const char* keys) {
    return fmt::format(
        R"({{"model_type":"{}","num_hidden_layers":2,"hidden_size":32,"num_attention_heads":4,)"
        R"("num_key_value_heads":2,"intermediate_size":48,"vocab_size":61,)"
        R"("max_position_embeddings":64{}}})",
        type, keys);
  };
  const std::string mixtral = family_config(2, "mixtral");
  const std::vector<Case> cases = {
      {bloom, {1, 1, 1, 1}, "bloom: Megatron-Core has no ALiBi"},
      {falcon, {1, 1, 1, 1}, "falcon: Megatron-Core has no block of parallel attention"},
      {recent("granite", R"(,"residual_multiplier":0.5)"),
       {1, 1, 1, 1},
       "no multiplier of scores, residuals"},
      {recent("hunyuan_v1_dense", ""), {1, 1, 1, 1}, "no norm of rotated queries and keys"},
      {recent("glm4", ""), {1, 1, 1, 1}, "no norm of attention's or the MLP's result"},
      {recent("olmoe", R"(,"num_experts":4,"num_experts_per_tok":2)"),
       {1, 1, 1, 1},
       "no norm over all heads of queries and keys"},
      {recent("seed_oss", R"(,"attention_out_bias":true)"),
       {1, 1, 1, 1},
       "no bias of attention's or the MLP's"},
      {recent("ernie4_5_moe",
              R"(,"moe_intermediate_size":16,"moe_num_experts":4,"moe_k":2,"moe_layer_start_index":0)"),
       {1, 1, 1, 1},
       "no softmax score with a bias"},
      {llama_config(2), {3, 1, 1, 1}, "expected a divisor of the 4 attention heads"},
      {llama_config(3), {1, 2, 1, 1}, "found 2 times 1 virtual chunks, expected a divisor of the 3 layers"},
      {llama_config(2), {1, 1, 2, 1}, "virtual_pipeline_chunks: found 2 without a pipeline"},
      {llama_config(2), {1, 1, 1, 2}, "llama has no experts"},
      {mixtral, {1, 1, 1, 3}, "expected a divisor of the 4 experts"},
  };
  for (const Case& each : cases) {
    fs::remove_all(at("hf"));
    make("hf", each.config);
    ConvertRequest made = request("hf");
    made.megatron.sizes = each.sizes;
    EXPECT_THAT(complaint(made), HasSubstr(each.says));
    EXPECT_FALSE(fs::exists(at("out.partial")));
  }
}

TEST_F(ConvertRefusalsTest, ATiedTableMustBeTheSameEverywhere) {
  make("hf", family_config(2, "qwen2"));
  MegatronTarget target;
  target.sizes = {2, 2, 1, 1};
  convert("hf", "m", target);
  const std::string rank = "m/iter_0000001/mp_rank_01_001/model_optim_rng.pt";
  const TorchFile file(at(rank));
  Tensors tensors = file.tensors("model");
  std::vector<std::byte> other(tensors.at("output_layer.weight").bytes.begin(),
                               tensors.at("output_layer.weight").bytes.end());
  other.front() ^= std::byte{1};
  tensors.at("output_layer.weight").bytes = other;
  rewrite(rank, tensors);
  EXPECT_EQ(complaint(request("m")), "accepted") << "rank 1 has nothing but padding, which is not read";
  const std::string first = "m/iter_0000001/mp_rank_00_001/model_optim_rng.pt";
  const TorchFile file0(at(first));
  tensors = file0.tensors("model");
  other.assign(tensors.at("output_layer.weight").bytes.begin(),
               tensors.at("output_layer.weight").bytes.end());
  other.front() ^= std::byte{1};
  tensors.at("output_layer.weight").bytes = other;
  rewrite(first, tensors);
  fs::remove_all(at("out"));
  EXPECT_THAT(complaint(request("m")),
              HasSubstr("output_layer.weight differs from embedding.word_embeddings.weight"));
}

TEST_F(ConvertRefusalsTest, OtherNamesAndExtraStatesArePassed) {
  make("hf", family_config(2, "mixtral"));
  convert("hf", "m", {});
  const std::string rank = "m/iter_0000001/mp_rank_00/model_optim_rng.pt";
  const TorchFile file(at(rank));
  Tensors tensors;
  for (const auto& [name, tensor] : file.tensors("model")) {
    std::string renamed = name;
    const auto replace = [&](const std::string& from, const std::string& to) {
      const std::size_t place = renamed.find(from);
      if (place != std::string::npos) renamed.replace(place, from.size(), to);
    };
    replace("self_attention.linear_qkv.layer_norm_", "input_layernorm.");
    for (const char* expert : {"0", "1", "2", "3"}) {
      for (const char* layer : {"linear_fc1", "linear_fc2"})
        replace(fmt::format("local_experts.{}.{}.weight", expert, layer),
                fmt::format("{}.weight{}", layer, expert));
    }
    tensors.emplace(renamed, tensor);
  }
  tensors.emplace("decoder.layers.0.mlp.linear_fc1._extra_state", tensors.begin()->second);
  tensors.emplace("decoder.layers.0.something.else", tensors.begin()->second);
  rewrite(rank, tensors);
  EXPECT_THAT(convert("m", "back").unused, testing::ElementsAre("decoder.layers.0.something.else"));
  EXPECT_THAT(different_tensors(at("hf"), at("back")), testing::IsEmpty());
}

}  // namespace
}  // namespace plumbline::convert::convert_refusals_test

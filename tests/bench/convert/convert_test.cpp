// Conversions in both directions: every family and split, resplitting, files left by stopped ones.
#include "bench/convert/convert.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "bench/convert/target_folder.hpp"
#include "core/base/error.hpp"
#include "tests/bench/convert/convert_folder.hpp"

namespace plumbline::convert::convert_test {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
namespace fs = std::filesystem;

using ConvertTest = ConvertFolder;

MegatronTarget split(int tensor, int pipeline, int chunks = 1, int expert = 1) {
  MegatronTarget target;
  target.sizes = {tensor, pipeline, chunks, expert};
  target.vocabulary_multiple = 16;
  return target;
}

bool is_mixture(const std::string& config) {
  return config.find("expert") != std::string::npos;
}

TEST_F(ConvertTest, ThereAndBackIsTheIdentityForEveryFamily) {
  const std::vector<std::string> configs = family_configs(4);
  for (std::size_t i = 0; i < configs.size(); ++i) {
    const std::string hf = fmt::format("hf{}", i);
    make(hf, configs[i]);
    for (const MegatronTarget& target :
         {split(1, 1), split(2, 2, 2), split(4, 4), split(1, 4), split(2, 1)}) {
      const MegatronSizes& s = target.sizes;
      for (const int expert : {1, 2}) {
        if (expert > 1 && !is_mixture(configs[i])) continue;
        const std::string name =
            fmt::format("{}.{}.{}.{}.{}", i, s.tensor, s.pipeline, s.virtual_chunks, expert);
        const auto check = [&](const std::string& back) {
          EXPECT_THAT(different_tensors(at(hf), at(back)), IsEmpty()) << configs[i] << name;
          EXPECT_EQ(read(back + "/config.json"), configs[i]);
        };
        MegatronTarget with_experts = target;
        with_experts.sizes.expert = expert;
        const ConvertReport there = convert(hf, "megatron" + name, with_experts);
        EXPECT_EQ(there.files, s.tensor * s.pipeline * expert);
        const ConvertReport back = convert("megatron" + name, "back" + name);
        EXPECT_THAT(back.unused, IsEmpty());
        EXPECT_TRUE(back.from_sizes == with_experts.sizes) << name;
        check("back" + name);
        fs::remove_all(at("megatron" + name));
        fs::remove_all(at("back" + name));
      }
    }
  }
}

TEST_F(ConvertTest, AllSplitsOfOneModel) {
  make("hf", llama_config(8));
  for (const int tensor : {1, 2, 4}) {
    for (const int pipeline : {1, 2, 4}) {
      for (const int chunks : {1, 2}) {
        if (pipeline == 1 && chunks > 1) continue;
        const std::string name = fmt::format("m{}{}{}", tensor, pipeline, chunks);
        convert("hf", name, split(tensor, pipeline, chunks));
        convert(name, "back" + name);
        EXPECT_THAT(different_tensors(at("hf"), at("back" + name)), IsEmpty()) << name;
      }
    }
  }
}

TEST_F(ConvertTest, ResplittingIsTheSameAsTheWayThroughHuggingFace) {
  make("hf", llama_config(4));
  make("moe", family_config(4, "qwen3_moe"));
  struct Case {
    const char* model;
    MegatronTarget from, to;
  };
  for (const Case& each : {Case{"hf", split(2, 2), split(4, 1)}, Case{"hf", split(4, 1), split(1, 2, 2)},
                           Case{"moe", split(2, 1, 1, 2), split(1, 2, 1, 4)}}) {
    convert(each.model, "a", each.from);
    convert("a", "direct", each.to, CheckpointFormat::megatron);
    convert("a", "hf2");
    convert("hf2", "through", each.to);
    EXPECT_EQ(files_of("direct"), files_of("through"));
    for (const char* name : {"a", "direct", "hf2", "through"}) fs::remove_all(at(name));
  }
}

TEST_F(ConvertTest, ShardsAndTorchFilesOfHuggingFaceAreReadToo) {
  make("hf", llama_config(2), StoredType::fp32);
  ConvertRequest request;
  request.from = at("hf");
  request.to = at("shards");
  request.format = CheckpointFormat::hugging_face;
  request.shard_bytes = 20'000;
  const ConvertReport report = convert_checkpoint(request, [](Bytes, Bytes) {});
  EXPECT_GT(report.files, 2);
  EXPECT_TRUE(fs::exists(at("shards/model.safetensors.index.json")));
  EXPECT_THAT(different_tensors(at("hf"), at("shards")), IsEmpty());

  // The same as .bin, in two shards.
  const TensorFile hf(at("hf"));
  write("bin/config.json", llama_config(2));
  std::string map;
  for (const int half : {0, 1}) {
    const std::string file = fmt::format("pytorch_model-0000{}-of-00002.bin", half + 1);
    std::map<std::string, StoredTensor> tensors;
    for (const std::string& name : hf.names()) {
      if ((name < "model.layers.1") != (half == 0)) continue;
      tensors.emplace(name, hf.get(name));
      map += fmt::format(R"({}"{}":"{}")", map.empty() ? "" : ",", name, file);
    }
    write_bin("bin/" + file, tensors);
  }
  write("bin/pytorch_model.bin.index.json", fmt::format(R"({{"weight_map":{{{}}}}})", map));
  request.from = at("bin");
  request.to = at("of_bin");
  convert_checkpoint(request, [](Bytes, Bytes) {});
  EXPECT_THAT(different_tensors(at("hf"), at("of_bin")), IsEmpty());
}

TEST_F(ConvertTest, PaddingRowsAreTheLastOneOrZero) {
  make("hf", llama_config(2));
  const auto row = [&](const std::string& folder, std::int64_t index) {
    const TorchFile file(at(folder + "/iter_0000001/mp_rank_01/model_optim_rng.pt"));
    const StoredTensor table = file.tensors("model").at("embedding.word_embeddings.weight");
    EXPECT_THAT(table.shape, testing::ElementsAre(64, 32));  // 117 to 128 rows, two ranks
    const std::span<const std::byte> bytes = table.bytes.subspan(static_cast<std::size_t>(index) * 64, 64);
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  convert("hf", "repeat", split(2, 1));
  EXPECT_EQ(row("repeat", 63), row("repeat", 116 - 64));
  EXPECT_NE(row("repeat", 63), row("repeat", 115 - 64));
  MegatronTarget zero = split(2, 1);
  zero.padding = VocabularyPadding::zero;
  convert("hf", "zero", zero);
  EXPECT_EQ(row("zero", 63), std::string(64, '\0'));
  EXPECT_EQ(row("zero", 116 - 64), row("repeat", 116 - 64));
  convert("zero", "back");
  EXPECT_THAT(different_tensors(at("hf"), at("back")), IsEmpty());
}

TEST_F(ConvertTest, ARankMayHavePaddingOnly) {
  make("hf", llama_config(2));  // 117 rows become 256 or 512
  for (const int tensor : {2, 4}) {
    for (const VocabularyPadding padding : {VocabularyPadding::zero, VocabularyPadding::repeat}) {
      const std::string name =
          fmt::format("tp{}_{}", tensor, padding == VocabularyPadding::zero ? "zero" : "repeat");
      MegatronTarget target = split(tensor, 1);
      target.vocabulary_multiple = 128;
      target.padding = padding;
      convert("hf", name, target);
      const TorchFile last(
          at(fmt::format("{}/iter_0000001/mp_rank_{:02}/model_optim_rng.pt", name, tensor - 1)));
      const StoredTensor table = last.tensors("model").at("embedding.word_embeddings.weight");
      EXPECT_THAT(table.shape, testing::ElementsAre(128, 32));
      const bool empty = std::all_of(table.bytes.begin(), table.bytes.end(),
                                     [](std::byte value) { return value == std::byte{0}; });
      EXPECT_EQ(empty, padding == VocabularyPadding::zero) << name;
      convert(name, name + "_back");
      EXPECT_THAT(different_tensors(at("hf"), at(name + "_back")), IsEmpty()) << name;
    }
  }
}

TEST_F(ConvertTest, WhatAStoppedConversionLeftIsGoneOnWith) {
  make("hf", llama_config(4));
  write("hf/tokenizer.json", "{}");
  const auto stop_after = [&](std::int64_t bytes, const std::string& to) {
    ConvertRequest request;
    request.from = at("hf");
    request.to = at(to);
    request.megatron = split(2, 2);
    request.threads = 1;
    try {
      convert_checkpoint(request, [&](Bytes done, Bytes) {
        if (done.value > bytes) throw std::runtime_error("killed");
      });
    } catch (const std::runtime_error&) {
      return;
    }
  };
  convert("hf", "whole", split(2, 2));
  stop_after(60'000, "out");
  EXPECT_FALSE(fs::exists(at("out")));
  ASSERT_TRUE(fs::exists(at("out.partial/iter_0000001/mp_rank_00_000/model_optim_rng.pt")));
  const ConvertReport rest = convert("hf", "out", split(2, 2));
  EXPECT_GE(rest.files_kept, 1);
  EXPECT_LT(rest.files_kept, 4);
  EXPECT_EQ(files_of("out"), files_of("whole"));
  EXPECT_FALSE(fs::exists(at("out.partial")));

  // Files left by another conversion are not mixed with it.
  stop_after(60'000, "other");
  EXPECT_EQ(convert("hf", "other", split(1, 2)).files_kept, 0);
  convert("hf", "one", split(1, 2));
  EXPECT_EQ(files_of("other"), files_of("one"));
}

TEST_F(ConvertTest, WhatIsThereStaysUnlessToldOtherwise) {
  make("hf", llama_config(2));
  convert("hf", "out", split(2, 1));
  ConvertRequest request;
  request.from = at("hf");
  request.to = at("out");
  const auto before = files_of("out");
  EXPECT_THAT(complaint(request), HasSubstr("found an existing"));
  EXPECT_EQ(files_of("out"), before);
  request.overwrite = true;
  EXPECT_EQ(complaint(request), "accepted");
  EXPECT_FALSE(fs::exists(at("out/iter_0000001/mp_rank_01")));
  EXPECT_FALSE(fs::exists(at("out.partial")));
  write("notes/thesis.txt", "years of work");
  request.to = at("notes");
  EXPECT_THAT(complaint(request), HasSubstr("other content than a checkpoint"));
  write("new.partial/thesis.txt", "years of work");
  request.to = at("new");
  EXPECT_THAT(complaint(request), HasSubstr("in the way"));
  request.to = at("hf/inside");
  EXPECT_THAT(complaint(request), HasSubstr("the same as or nested with FROM"));
  request.to = at("hf");
  EXPECT_THAT(complaint(request), HasSubstr("the same as or nested with FROM"));
  const TargetFolder busy(at("busy"), false, "another");
  request.to = at("busy");
  EXPECT_THAT(complaint(request), HasSubstr("in use by another conversion"));
  fs::create_directory(at("empty"));
  request.to = at("empty/");
  EXPECT_EQ(complaint(request), "accepted");
}

}  // namespace
}  // namespace plumbline::convert::convert_test

// Checkpoints of Megatron-Core's torch_dist that torch.distributed.checkpoint wrote
// (tests/golden/make_torch_dist.py): they equal the model beside them in Hugging Face's layout; damaged ones
// are refused in one line.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <functional>

#include "core/base/error.hpp"
#include "tests/bench/convert/convert_folder.hpp"

namespace plumbline::convert::distributed_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
namespace fs = std::filesystem;

class DistributedTest : public ConvertFolder {
 protected:
  /// Path of a golden file.
  static std::string golden(const std::string& name) {
    return std::string(PLUMBLINE_SOURCE_DIR "/tests/golden/torch_dist/") + name;
  }
  /// A copy of one of them, with its config.json.
  void copy(const std::string& kind) const {
    fs::remove_all(at("m"));
    fs::copy(golden(kind + "/torch_dist"), at("m"), fs::copy_options::recursive);
    fs::copy(golden(kind + "/hf/config.json"), at("m"));
  }
  /// Replaces bytes of a file by equally many others.
  void replace(const std::string& name, const std::string& from, const std::string& to) const {
    std::string bytes = read(name);
    ASSERT_NE(bytes.find(from), std::string::npos);
    for (std::size_t place = bytes.find(from); place != std::string::npos;
         place = bytes.find(from, place + 1))
      bytes.replace(place, from.size(), to);
    write(name, bytes);
  }
};

TEST_F(DistributedTest, WhatPyTorchWroteIsTheModelBesideIt) {
  for (const std::string kind : {"llama", "mixtral", "qwen3_moe"}) {
    SCOPED_TRACE(kind);
    copy(kind);
    const ConvertReport report = convert("m", "back");
    EXPECT_EQ(report.from, CheckpointFormat::distributed);
    EXPECT_EQ(report.to, CheckpointFormat::hugging_face);
    EXPECT_THAT(report.unused, IsEmpty());
    EXPECT_EQ(report.optimizer, kind == "llama");
    EXPECT_THAT(different_tensors(golden(kind + "/hf"), at("back")), IsEmpty());
    MegatronTarget target;
    target.sizes.tensor = 2;
    convert("m", "direct", target, CheckpointFormat::megatron);
    convert("back", "through", target);
    EXPECT_EQ(files_of("direct"), files_of("through"));
    for (const char* name : {"back", "direct", "through"}) fs::remove_all(at(name));
  }
}

TEST_F(DistributedTest, DamagedOnesAreRefusedInOneLine) {
  const std::string folder = "m/iter_0000003/";
  struct Case {
    std::function<void()> damage;
    const char* says;
  };
  const auto shrink = [&](const std::string& name) {
    fs::resize_file(at(folder + name), fs::file_size(at(folder + name)) / 2);
  };
  const std::vector<Case> cases = {
      {[&] { fs::remove(at(folder + ".metadata")); }, ".metadata is missing"},
      {[&] { shrink(".metadata"); }, "pickle, byte"},
      {[&] { write(folder + ".metadata", "cos\nsystem\n."); }, "nothing was executed"},
      {[&] { write(folder + "metadata.json", R"({"sharded_backend": "zarr"})"); },
       "sharded_backend: found \"zarr\", expected \"torch_dist\""},
      {[&] { fs::remove(at(folder + "__0_1.distcp")); }, "__0_1.distcp: No such file"},
      {[&] { shrink("__0_0.distcp"); }, "truncated"},
      {[&] { replace(folder + ".metadata", "__0_0.distcp", "../00.distcp"); }, "a file in the same folder"},
      {[&] {
         replace(folder + ".metadata", "decoder.final_layernorm.weight", "decoder.final_layernorm.weighs");
       },
       "tensor \"decoder.final_layernorm.weight\": missing"},
      {[&] { replace(folder + "__0_0.distcp", "PK\x03\x04", "PK\x03\x05"); }, "its header is damaged"},
      {[&] { write("m/config.json", llama_config(2)); }, "by the model"},
      {[&] {
         std::string config = read("m/config.json");
         config.replace(config.find("\"num_hidden_layers\": 2"), 22, "\"num_hidden_layers\": 3");
         write("m/config.json", config);
       },
       "has shape [2, 16], expected [3, 16] by the model"},
  };
  for (const Case& each : cases) {
    copy("llama");
    each.damage();
    ConvertRequest request;
    request.from = at("m");
    request.to = at("out");
    const std::string said = complaint(request);
    EXPECT_THAT(said, HasSubstr(each.says));
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
    EXPECT_FALSE(fs::exists(at("out"))) << each.says;
    EXPECT_FALSE(fs::exists(at("out.partial"))) << each.says;
  }
}

}  // namespace
}  // namespace plumbline::convert::distributed_test

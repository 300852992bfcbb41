// FP8 matrices with block scales, as DeepSeek-V3 is published, as a source: of conversions, and of a model
// that is evaluated.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <random>

#include "bench/training/check/checkpoint_comparison.hpp"
#include "core/tensor/half_floats.hpp"
#include "tests/bench/convert/convert_folder.hpp"

namespace plumbline::convert::fp8_source_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

using Fp8SourceTest = ConvertFolder;

/// Rows and columns of more than one block, some of them part of one.
constexpr const char* kConfig =
    R"({"model_type":"mixtral","num_hidden_layers":2,"hidden_size":160,"num_attention_heads":4,)"
    R"("num_key_value_heads":2,"intermediate_size":144,"num_local_experts":2,"num_experts_per_tok":1,)"
    R"("vocab_size":61,"max_position_embeddings":32,"torch_dtype":"bfloat16",)"
    R"("quantization_config":{"quant_method":"fp8","weight_block_size":[128,128]}})";

bool is_quantized(const std::string& name, const StoredTensor& tensor) {
  return tensor.shape.size() == 2 && name.starts_with("model.layers.") && !name.ends_with(".gate.weight");
}

struct Quantized {
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;
};

/// Finite codes and factors of few digits, so that products are bf16 numbers.
Quantized draw(const StoredTensor& tensor, std::mt19937& random) {
  Quantized drawn;
  for (std::int64_t i = 0; i < tensor.elements(); ++i)
    drawn.codes.push_back(static_cast<std::uint8_t>(random() & 0xb7U));
  const auto blocks = [](std::int64_t size) { return (size + 127) / 128; };
  for (std::int64_t i = 0; i < blocks(tensor.shape[0]) * blocks(tensor.shape[1]); ++i)
    drawn.scales.push_back(std::ldexp(1.25F, -static_cast<int>(random() % 4)));
  return drawn;
}

/// By the definition of E4M3.
double value_of(std::uint8_t code) {
  const int exponent = (code & 0x78) / 8;
  const double fraction = (code & 7) / 8.0;
  const double size = exponent == 0 ? std::ldexp(fraction, -6) : std::ldexp(1 + fraction, exponent - 7);
  return code >= 0x80 ? -size : size;
}

/// Writes `name`: small weights in bf16, and those of layers in FP8. `expected`: all of them in bf16.
void make_fp8(const std::string& plain, const std::string& name, const std::string& expected) {
  const TensorFile file(plain);
  std::vector<TensorFileWriter::Entry> fp8;
  std::vector<TensorFileWriter::Entry> wide;
  for (const std::string& tensor : file.names()) {
    const StoredTensor& stored = file.get(tensor);
    wide.push_back({tensor, StoredType::bf16, stored.shape});
    if (!is_quantized(tensor, stored)) {
      fp8.push_back(wide.back());
      continue;
    }
    fp8.push_back({tensor, StoredType::fp8_e4m3, stored.shape});
    fp8.push_back({tensor + "_scale_inv",
                   StoredType::fp32,
                   {(stored.shape[0] + 127) / 128, (stored.shape[1] + 127) / 128}});
  }
  TensorFileWriter narrow_out(name + "/model.safetensors", fp8);
  TensorFileWriter wide_out(expected + "/model.safetensors", wide);
  std::mt19937 random(5);
  for (const std::string& tensor : file.names()) {
    const StoredTensor& stored = file.get(tensor);
    std::vector<std::uint16_t> values;
    if (!is_quantized(tensor, stored)) {
      for (std::int64_t i = 0; i < stored.elements(); ++i)
        values.push_back(to_bf16(static_cast<float>(i % 7) * 0.125F - 0.25F));
      narrow_out.write(tensor, std::as_bytes(std::span(values)));
    } else {
      const Quantized drawn = draw(stored, random);
      const std::int64_t across = (stored.shape[1] + 127) / 128;
      for (std::int64_t i = 0; i < stored.elements(); ++i) {
        const std::int64_t block = i / stored.shape[1] / 128 * across + i % stored.shape[1] / 128;
        values.push_back(to_bf16(static_cast<float>(value_of(drawn.codes[static_cast<std::size_t>(i)])) *
                                 drawn.scales[static_cast<std::size_t>(block)]));
      }
      narrow_out.write(tensor, std::as_bytes(std::span(drawn.codes)));
      narrow_out.write(tensor + "_scale_inv", std::as_bytes(std::span(drawn.scales)));
    }
    wide_out.write(tensor, std::as_bytes(std::span(values)));
  }
  narrow_out.finish();
  wide_out.finish();
}

TEST_F(Fp8SourceTest, BecomesBf16InEveryLayout) {
  make("plain", kConfig);
  for (const char* name : {"fp8", "wide"}) write(fmt::format("{}/config.json", name), kConfig);
  make_fp8(at("plain"), at("fp8"), at("wide"));
  EXPECT_THAT(convert("fp8", "hf", {}, CheckpointFormat::hugging_face).unused, IsEmpty());
  EXPECT_THAT(different_tensors(at("wide"), at("hf")), IsEmpty());
  EXPECT_THAT(read("hf/config.json"), Not(HasSubstr("quantization_config")));
  EXPECT_THAT(read("hf/config.json"), HasSubstr("\"intermediate_size\": 144"));
  MegatronTarget target;
  target.sizes = {2, 2, 1, 2};
  convert("fp8", "megatron", target);
  convert("wide", "same", target);
  convert("megatron", "back");
  EXPECT_THAT(different_tensors(at("wide"), at("back")), IsEmpty());
}

TEST_F(Fp8SourceTest, IsEvaluatedLikeItsValues) {
  make("plain", kConfig);
  for (const char* name : {"fp8", "wide"}) write(fmt::format("{}/config.json", name), kConfig);
  make_fp8(at("plain"), at("fp8"), at("wide"));
  training::CheckRequest request;
  request.folders = {at("fp8"), at("wide")};
  request.sequences = 1;
  request.seq_length = 8;
  const training::CheckReport report = training::check_checkpoints(request, [](int, int) {});
  ASSERT_EQ(report.sequences.size(), 1U);
  EXPECT_TRUE(std::isfinite(report.sequences.front().sides[0].loss));
  EXPECT_EQ(report.sequences.front().difference, 0);
  EXPECT_EQ(report.different, 0);
}

TEST_F(Fp8SourceTest, WithoutScalesIsRefused) {
  const TensorFile plain(make("plain", kConfig));
  std::vector<TensorFileWriter::Entry> entries;
  for (const std::string& name : plain.names())
    entries.push_back({name, StoredType::fp8_e4m3, plain.get(name).shape});
  write("fp8/config.json", kConfig);
  TensorFileWriter writer(at("fp8/model.safetensors"), entries);
  for (const TensorFileWriter::Entry& entry : entries)
    writer.write(entry.name, plain.get(entry.name).bytes.first(plain.get(entry.name).bytes.size() / 2));
  writer.finish();
  ConvertRequest request;
  request.from = at("fp8");
  request.to = at("to");
  EXPECT_THAT(complaint(request), HasSubstr("holds F8_E4M3 without block scales (_scale_inv), expected"));
}

/// Names as of Transformer Engine's grouped products, which hold the same bytes.
TEST_F(Fp8SourceTest, ExpertsHaveGroupedNamesOnRequest) {
  make("hf", kConfig);
  MegatronTarget target;
  target.sizes = {1, 1, 1, 2};
  target.grouped_experts = true;
  convert("hf", "grouped", target);
  const std::string file = "grouped/iter_0000001/mp_rank_00_001/model_optim_rng.pt";
  EXPECT_THAT(read(file), HasSubstr("mlp.experts.linear_fc1.weight0"));
  EXPECT_THAT(read(file), HasSubstr("mlp.experts.linear_fc2.weight0"));
  EXPECT_THAT(read(file), Not(HasSubstr("local_experts")));
  convert("grouped", "back");
  EXPECT_THAT(different_tensors(at("hf"), at("back")), IsEmpty());
}

}  // namespace
}  // namespace plumbline::convert::fp8_source_test

// Tensor files: written files read back, and every kind of damaged or hostile file is refused.
#include "core/files/safetensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <tuple>

#include "core/base/error.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/temporary_folder.hpp"

namespace plumbline::safetensors_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

class TensorFolder : public testing::Test, protected test::TemporaryFolder {
 protected:
  std::string write(const std::string& bytes, const std::string& name = "t.safetensors") const {
    std::ofstream(at(name), std::ios::binary) << bytes;
    return at(name);
  }
  static std::string complaint(const std::string& path) {
    return test::refusal_of([&] { const TensorFile file(path); });
  }
  std::size_t files_in_folder() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
};

/// A file image: header length, header, data.
std::string image(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  return bytes + header + std::string(data_bytes, '\x01');
}
template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

TEST_F(TensorFolder, BlockScalesBelongToTheirMatrix) {
  const std::vector<std::uint8_t> codes = {0x38, 0x7e, 0x01, 0x08, 0xb8, 0x7f};  // 1, 448, …, -1, NaN
  const std::vector<double> values = {1, 448, std::ldexp(1, -9), std::ldexp(1, -6), -1};
  TensorFileWriter writer(at("m.safetensors"), {{"w", StoredType::fp8_e4m3, {1, 6}},
                                                {"w_scale_inv", StoredType::fp32, {1, 1}},
                                                {"wide", StoredType::fp8_e4m3, {130, 129}},
                                                {"wide_scale_inv", StoredType::fp32, {2, 2}}});
  writer.write("w", bytes_of(codes));
  writer.write("w_scale_inv", bytes_of(std::vector<float>{0.5F}));
  writer.write("wide", bytes_of(std::vector<std::uint8_t>(130 * 129, 0x38)));
  writer.write("wide_scale_inv", bytes_of(std::vector<float>{1, 2, 3, 4}));
  writer.finish();
  const TensorFile file(at("m.safetensors"));
  EXPECT_THAT(file.names(), ElementsAre("w", "wide"));
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(file.get("w").at(static_cast<std::int64_t>(i)), 0.5 * values[i]);
  EXPECT_TRUE(std::isnan(file.get("w").at(5)));
  EXPECT_EQ(file.get("w").value_type(), StoredType::bf16);
  const StoredTensor& wide = file.get("wide");
  for (const auto& [row, col, scale] :
       {std::tuple(127, 127, 1), std::tuple(0, 128, 2), std::tuple(128, 0, 3), std::tuple(129, 128, 4)})
    EXPECT_EQ(wide.at(row * 129 + col), static_cast<float>(scale));
}

TEST_F(TensorFolder, BlockScalesOfOtherShapesAreRefused) {
  struct Case {
    StoredType matrix, scales;
    std::int64_t count;
    const char* expected;
  };
  for (const Case& c :
       {Case{StoredType::fp8_e4m3, StoredType::fp32, 2,
             "tensor \"w_scale_inv\": found F32 of shape [2, 1], expected F32 of shape [1, 1]"},
        Case{StoredType::fp8_e4m3, StoredType::bf16, 1, "found BF16 of shape [1, 1], expected F32"},
        Case{StoredType::bf16, StoredType::fp32, 1, "found block scales, expected an F8_E4M3 matrix"}}) {
    TensorFileWriter writer(at("m.safetensors"),
                            {{"w", c.matrix, {4, 4}}, {"w_scale_inv", c.scales, {c.count, 1}}});
    writer.write("w", bytes_of(std::vector<std::uint8_t>(static_cast<std::size_t>(16 * size_of(c.matrix)))));
    writer.write("w_scale_inv",
                 bytes_of(std::vector<std::uint8_t>(static_cast<std::size_t>(c.count * size_of(c.scales)))));
    writer.finish();
    EXPECT_THAT(complaint(at("m.safetensors")), HasSubstr(c.expected));
  }
}

TEST_F(TensorFolder, WhatIsWrittenReadsBack) {
  const std::vector<float> floats = {1.5F, -2.0F, 0.25F, 1e-30F, 3.0F, 4.0F};
  const std::vector<std::uint16_t> bf16 = {0x3f80, 0xc000};          // 1, -2
  const std::vector<std::uint16_t> fp16 = {0x3c00, 0x0001, 0x7c00};  // 1, smallest, infinity
  const std::vector<std::int64_t> big = {-7};
  TensorFileWriter writer(at("w.safetensors"), {{"half", StoredType::fp16, {3}},
                                                {"b\"f\xc3\xa9", StoredType::bf16, {2, 1}},
                                                {"matrix", StoredType::fp32, {2, 3}},
                                                {"scalar", StoredType::int64, {}},
                                                {"empty", StoredType::int32, {0, 4}}});
  EXPECT_FALSE(fs::exists(at("w.safetensors")));
  writer.write("scalar", bytes_of(big));
  writer.write("half", bytes_of(fp16));
  writer.write("matrix", bytes_of(floats));
  writer.write("b\"f\xc3\xa9", bytes_of(bf16));
  EXPECT_THROW(writer.finish(), Error);  // "empty" was not written
  writer.write("empty", {});
  EXPECT_THROW(writer.write("other", {}), Error);
  EXPECT_THROW(writer.write("half", {}), Error);
  writer.finish();
  EXPECT_EQ(files_in_folder(), 1U);

  const TensorFile file(at("w.safetensors"));
  EXPECT_THAT(file.names(), ElementsAre("b\"f\xc3\xa9", "empty", "half", "matrix", "scalar"));
  const StoredTensor& matrix = file.get("matrix");
  EXPECT_EQ(matrix.type, StoredType::fp32);
  EXPECT_THAT(matrix.shape, ElementsAre(2, 3));
  EXPECT_EQ(std::memcmp(matrix.bytes.data(), floats.data(), matrix.bytes.size()), 0);
  for (std::size_t i = 0; i < floats.size(); ++i)
    EXPECT_EQ(matrix.at(static_cast<std::int64_t>(i)), floats[i]);
  EXPECT_EQ(file.get("b\"f\xc3\xa9").at(1), -2.0F);
  EXPECT_EQ(file.get("half").at(0), 1.0F);
  EXPECT_EQ(file.get("half").at(1), std::ldexp(1.0F, -24));
  EXPECT_TRUE(std::isinf(file.get("half").at(2)));
  EXPECT_EQ(file.get("scalar").at(0), -7.0F);
  EXPECT_EQ(file.get("empty").elements(), 0);
  EXPECT_EQ(file.find("nothing"), nullptr);
  try {
    static_cast<void>(file.get("matrx"));
    FAIL() << "found";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("nearest name is \"matrix\""));
  }
}

TEST_F(TensorFolder, AnUnfinishedFileLeavesNothing) {
  {
    TensorFileWriter writer(at("w.safetensors"), {{"a", StoredType::fp32, {2}}});
    EXPECT_EQ(files_in_folder(), 1U);
  }
  EXPECT_EQ(files_in_folder(), 0U);
  EXPECT_THROW(TensorFileWriter(at("none/w.safetensors"), {}), OutputError);
  EXPECT_THROW(TensorFileWriter(at("w"), {{"a", StoredType::fp32, {1}}, {"a", StoredType::fp32, {1}}}),
               InputError);
  EXPECT_THROW(TensorFileWriter(at("w"), {{"a", StoredType::fp32, {std::int64_t{1} << 62, 8}}}), InputError);
  EXPECT_EQ(files_in_folder(), 0U);
}

TEST_F(TensorFolder, ReadsTheSmallestFilesAndMetadata) {
  EXPECT_EQ(complaint(write(image("{}", 0))), "accepted");
  EXPECT_EQ(
      complaint(write(image(
          R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}   )", 4))),
      "accepted");
}

TEST_F(TensorFolder, RefusesDamagedAndHostileFiles) {
  const std::string a = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  struct Case {
    std::string bytes;
    std::vector<const char*> fragments;
  };
  std::string lie = image("{" + a + "}", 8);
  lie[0] = '\x7f';
  std::string huge = lie;
  std::memset(huge.data(), 0xff, 8);
  std::string deep = "{\"a\":";
  deep += std::string(1'000'000, '[');
  const std::vector<Case> cases = {
      {"", {"0 bytes long"}},
      {"\x01\x02", {"2 bytes long"}},
      {lie, {"header length 127", "truncated"}},
      {huge, {"header length 18446744073709551615"}},
      {image("{" + a + "}", 7), {"tensor \"a\"", "do not lie in the 7 bytes"}},
      {image("{" + a + "}", 9), {"1 bytes after the last tensor"}},
      {image("{" + a, 8), {"not valid JSON"}},
      {image("{" + a + "} x", 8), {"not valid JSON"}},
      {image(std::string("{\0}", 3), 0), {"not valid JSON"}},
      {image("{\"\xff\":1}", 0), {"not valid JSON"}},
      {image("", 0), {"not valid JSON"}},
      {image("[]", 0), {"expected a JSON object"}},
      {image("3", 0), {"expected a JSON object"}},
      {image("{" + a + "," + a + "}", 8), {"tensor \"a\"", "given twice"}},
      {image("{" + a + R"(,"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12),
       {"tensor \"b\"", "overlap"}},
      {image("{" + a + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}})", 16),
       {"tensor \"b\"", "belong to no tensor"}},
      {image(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12), {"belong to no tensor"}},
      {image(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8),
       {"shape [3]", "needs 12 bytes", "give 8"}},
      {image(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8), {"do not lie"}},
      {image(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]}})", 8),
       {"overflows"}},
      {image(R"({"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,8]}})", 8),
       {"overflows"}},
      {image(R"({"a":{"dtype":"F32","shape":[0,4611686018427387904,4611686018427387904],"data_offsets":[0,)"
             R"(0]}})",
             0),
       {"accepted"}},
      {image(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8), {"shape: found -2"}},
      {image(R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", 8), {"shape: found 2.0"}},
      {image(R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8]}})", 8), {"shape"}},
      {image(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551615]}})", 8),
       {"data_offsets: found 18446744073709551615"}},
      {image(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,9223372036854775807]}})", 8),
       {"do not lie"}},
      {image(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,1e999]}})", 8), {"not valid JSON"}},
      {image(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", 8),
       {"data_offsets: found 1 numbers"}},
      {image(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}})", 8),
       {"data_offsets: found 3 numbers"}},
      {image(R"({"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})", 8),
       {"dtype: found \"F64\"", "BF16"}},
      {image(R"({"a":{"dtype":7,"shape":[2],"data_offsets":[0,8]}})", 8), {"dtype: found 7"}},
      {image(R"({"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8),
       {"dtype: given twice"}},
      {image(R"({"a":{"dtype":"F32","shape":[2]}})", 8), {"data_offsets: missing"}},
      {image(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1}})", 8), {"more: found 1"}},
      {image(R"({"a":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})", 8), {"shape: found a list"}},
      {image(R"({"a":{"dtype":"F32","shape":{"b":2},"data_offsets":[0,8]}})", 8), {"shape: found a mapping"}},
      {image(R"({"a":null})", 0), {"found null"}},
      {image(R"({"__metadata__":{"a":1}})", 0), {"found 1"}},
      {image(R"({"__metadata__":{"a":{}}})", 0), {"found a mapping"}},
      {image(R"({"__metadata__":[]})", 0), {"found a list"}},
      {image(deep, 0), {"found a list"}},
  };
  for (const Case& c : cases) {
    const std::string message = complaint(write(c.bytes));
    for (const char* fragment : c.fragments)
      EXPECT_THAT(message, HasSubstr(fragment)) << c.bytes.substr(8, 200);
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
  EXPECT_THAT(complaint(at("missing.safetensors")), HasSubstr("No such file"));
  EXPECT_THAT(complaint(folder_.string()), HasSubstr("neither model.safetensors nor"));
  EXPECT_THAT(complaint("/dev/null"), HasSubstr("not a regular file"));
}

TEST_F(TensorFolder, ReadsShardedFolders) {
  const std::string a = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  const std::string b = R"({"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  write(image(a, 4), "model-1.safetensors");
  write(image(b, 8), "model-2.safetensors");
  const auto index = [&](const std::string& map) {
    write(map, "model.safetensors.index.json");
    return complaint(folder_.string());
  };
  EXPECT_EQ(index(R"({"metadata":{"total_size":12},"weight_map":{"a":"model-1.safetensors",)"
                  R"("b":"model-2.safetensors"}})"),
            "accepted");
  EXPECT_THAT(TensorFile(folder_.string()).names(), ElementsAre("a", "b"));

  EXPECT_THAT(index(R"({"weight_map":{"a":"model-1.safetensors","c":"model-2.safetensors"}})"),
              HasSubstr("tensor \"b\""));
  EXPECT_THAT(index(R"({"weight_map":{"a":"model-1.safetensors","b":"model-1.safetensors"}})"),
              HasSubstr("\"b\" is not in"));
  EXPECT_THAT(index(R"({"weight_map":{"a":"model-3.safetensors"}})"), HasSubstr("No such file"));
  EXPECT_THAT(index(R"({"weight_map":[]})"), HasSubstr("weight_map: expected a mapping"));
  EXPECT_THAT(index(R"({"weight_map":{"a":3}})"), HasSubstr("found 3"));
  EXPECT_THAT(index("{"), HasSubstr("not valid JSON"));
  for (const char* name :
       {"../model-1.safetensors", "/etc/passwd", "..", "sub/model.safetensors", "a\\\\b.safetensors", "",
        ".hidden.safetensors", "config.json", "a\\u0000.safetensors"}) {
    EXPECT_THAT(index(std::string(R"({"weight_map":{"a":")") + name + "\"}}"),
                HasSubstr("in the same folder"))
        << name;
  }
  write(image(a, 4), "model-2.safetensors");
  EXPECT_THAT(index(R"({"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}})"),
              HasSubstr("another shard"));
  write(image(a, 4), "model.safetensors");
  EXPECT_EQ(complaint(folder_.string()), "accepted");  // the single file wins
}

}  // namespace
}  // namespace plumbline::safetensors_test

// .metadata of torch.distributed.checkpoint: PyTorch's files are read, anything else is refused in one line.
#include "core/checkpoints/distributed_metadata.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "tests/support/refusal.hpp"

namespace plumbline::distributed_metadata_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Pickles as text. Numbers are of one byte.
std::string number(int value) {
  return std::string("K") + static_cast<char>(value);
}
std::string text(const std::string& value) {
  return std::string("\x8c") + static_cast<char>(value.size()) + value;
}
std::string size(const std::vector<int>& values) {
  std::string items;
  for (const int value : values) items += number(value);
  return "ctorch\nSize\n((" + items + "ttR";
}
std::string dictionary(const std::string& items) {
  return "}(" + items + "u";
}
std::string object(const std::string& type, const std::string& state) {
  return "ctorch.distributed.checkpoint." + type + "\n)\x81" + state + "b";
}

struct Box {
  std::vector<int> offsets, sizes;
  std::string file = "__0_0.distcp";
  std::string more = "";  // members of the place's description
};

std::string chunk(const Box& box) {
  return object("metadata\nChunkStorageMetadata",
                dictionary(text("offsets") + size(box.offsets) + text("sizes") + size(box.sizes)));
}
std::string place(const std::string& name, const Box& box) {
  return object("metadata\nMetadataIndex", dictionary(text("fqn") + text(name) + text("index") + "N" +
                                                      text("offset") + size(box.offsets))) +
         object("filesystem\n_StorageInfo",
                dictionary(text("relative_path") + text(box.file) + text("offset") + number(7) +
                           text("length") + number(9) + box.more));
}
std::string tensor(const std::vector<int>& shape, const std::vector<Box>& boxes) {
  std::string chunks;
  for (const Box& box : boxes) chunks += chunk(box);
  return object("metadata\nTensorStorageMetadata",
                dictionary(text("properties") + "N" + text("size") + size(shape) + text("chunks") + "](" +
                           chunks + "e"));
}
std::string metadata(const std::string& tensors, const std::string& places) {
  return "\x80\x04" +
         object("metadata\nMetadata", dictionary(text("state_dict_metadata") + dictionary(tensors) +
                                                 text("storage_data") + dictionary(places))) +
         ".";
}
/// One tensor "w" in boxes.
std::string one(const std::vector<int>& shape, const std::vector<Box>& boxes) {
  std::string places;
  for (const Box& box : boxes) places += place("w", box);
  return metadata(text("w") + tensor(shape, boxes), places);
}

std::map<std::string, DistributedTensor> read(const std::string& bytes) {
  return read_distributed_metadata(std::as_bytes(std::span(bytes)), ".metadata");
}
std::string complaint(const std::string& bytes) {
  return test::refusal_of([&] { read(bytes); });
}

TEST(DistributedMetadataTest, TensorsAreBoxesInFiles) {
  const auto found = read(one({4, 6}, {{{0, 0}, {2, 6}}, {{2, 0}, {2, 6}, "__1_0.distcp"}}));
  ASSERT_EQ(found.size(), 1U);
  const DistributedTensor& tensor = found.at("w");
  EXPECT_THAT(tensor.shape, ElementsAre(4, 6));
  ASSERT_EQ(tensor.chunks.size(), 2U);
  EXPECT_THAT(tensor.chunks[1].offsets, ElementsAre(2, 0));
  EXPECT_THAT(tensor.chunks[1].sizes, ElementsAre(2, 6));
  EXPECT_EQ(tensor.chunks[1].file, "__1_0.distcp");
  EXPECT_EQ(tensor.chunks[1].begin, 7U);
  EXPECT_EQ(tensor.chunks[1].length, 9U);
  EXPECT_TRUE(covers_whole(tensor));
  // States as bytes are left out.
  const std::string state = text("rng") + object("metadata\nBytesStorageMetadata", dictionary(""));
  EXPECT_TRUE(read(metadata(state, "")).empty());
}

TEST(DistributedMetadataTest, WhatIsNoMetadataIsRefusedInOneLine) {
  struct Case {
    std::string bytes;
    const char* says;
  };
  std::string many;  // states of one object, all the same dictionary
  for (int i = 0; i < 100'000; ++i)
    many +=
        "h\x01"
        "b";
  const std::string bomb = "\x80\x04" + dictionary(text("a") + "N") +
                           "q\x01"
                           "0ctorch.distributed.checkpoint.metadata\nMetadata\n)\x81" +
                           many + ".";
  const Box box{{0}, {4}};
  const std::vector<Case> cases = {
      {"\x80\x04}.", "no object"},
      {"\x80\x04" + object("metadata\nMetadata", dictionary("")) + ".", "an object without storage_data"},
      {"\x80\x04" + object("metadata\nEvil", dictionary("")) + ".", "which no checkpoint needs"},
      {one({4}, {{{1}, {4}}}), "does not lie in its [4]"},
      {one({4}, {{{0, 0}, {4, 1}}}), "does not lie in its [4]"},
      {one({4}, {box, box}), "two parts at [0]"},
      {metadata(text("w") + tensor({4}, {box}), ""), "the part of [4] at [0] is in no file"},
      {metadata(text("w") + tensor({4}, {box}) + text("w") + tensor({4}, {box}), place("w", box)),
       "given twice"},
      {one({4}, {{{0}, {4}, "../x"}}), "expected the name of a file in the same folder"},
      {one({4}, {{{0}, {4}, ".x"}}), "expected the name of a file in the same folder"},
      {one({4}, {{{0}, {4}, ""}}), "expected the name of a file in the same folder"},
      {one({4}, {{{0}, {4}, "x", text("transform_descriptors") + "](" + text("zstd") + "e"}}), "transformed"},
      {one({1, 1, 1, 1, 1, 1, 1, 1, 1}, {}), "a shape that is none"},
      {metadata(text("w") + object("metadata\nTensorStorageMetadata", dictionary(text("size") + "N")), ""),
       "an object without chunks"},
      {one({4}, {box}).substr(0, 60), "pickle, byte"},
  };
  for (const Case& each : cases) {
    const std::string said = complaint(each.bytes);
    EXPECT_THAT(said, HasSubstr(each.says));
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
  }
  EXPECT_NE(complaint(bomb), "accepted");
}

TEST(DistributedMetadataTest, BoxesCoverATensorOrDoNot) {
  struct Case {
    std::vector<std::int64_t> shape;
    std::vector<std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>> boxes;
    bool whole;
  };
  const std::vector<Case> cases = {
      {{4}, {{{0}, {4}}}, true},
      {{4}, {{{0}, {2}}, {{2}, {2}}}, true},
      {{4}, {{{0}, {2}}, {{3}, {1}}}, false},
      {{4}, {{{0}, {3}}, {{2}, {2}}}, false},
      {{4}, {{{0}, {2}}, {{1}, {2}}}, false},  // equally many elements
      {{4}, {}, false},
      {{4, 4}, {{{0, 0}, {2, 4}}, {{2, 0}, {2, 3}}, {{2, 3}, {2, 1}}}, true},
      {{4, 4}, {{{0, 0}, {2, 4}}, {{2, 0}, {2, 3}}}, false},
      {{4, 4}, {{{0, 0}, {2, 2}}, {{2, 2}, {2, 2}}, {{0, 0}, {2, 2}}, {{2, 2}, {2, 2}}}, false},
      {{2, 2, 2, 2}, {{{0, 0, 0, 0}, {1, 2, 2, 2}}, {{1, 0, 0, 0}, {1, 2, 2, 2}}}, true},
      {{2, 2, 2, 2}, {{{0, 0, 0, 0}, {1, 2, 2, 2}}, {{1, 0, 0, 0}, {1, 2, 1, 2}}}, false},
      {{1, 1, 1, 1, 1}, {{{0, 0, 0, 0, 0}, {1, 1, 1, 1, 1}}}, false},  // more axes than any tensor has
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    DistributedTensor tensor;
    tensor.shape = cases[i].shape;
    for (const auto& [offsets, sizes] : cases[i].boxes) tensor.chunks.push_back({offsets, sizes, "f", 0, 0});
    EXPECT_EQ(covers_whole(tensor), cases[i].whole) << i;
  }
}

}  // namespace
}  // namespace plumbline::distributed_metadata_test

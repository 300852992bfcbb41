// Files of torch.save: written files read back, and damaged or hostile archives are refused in one line.
#include "core/checkpoints/torch_file.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/base/error.hpp"
#include "core/checkpoints/torch_writer.hpp"
#include "tests/support/refusal.hpp"

namespace plumbline::torch_file_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

/// One entry of a zip archive, with its headers' fields.
struct Entry {
  std::string name;
  std::string bytes;
  std::uint16_t method = 0;
  std::uint16_t flags = 0;
  std::uint32_t said_size = 0xffffffff;  // in the directory; else that of the bytes
  std::int64_t offset = -1;              // in the directory; else where it is
};

void append(std::string& to, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i, value >>= 8) to += static_cast<char>(value & 0xff);
}

void append_header(std::string& to, const Entry& entry, std::uint32_t size) {
  append(to, entry.flags, 2);
  append(to, entry.method, 2);
  append(to, 0, 8);  // time, date, checksum
  append(to, size, 4);
  append(to, size, 4);
  append(to, entry.name.size(), 2);
}

/// An archive of these entries, valid or not.
std::string zip_of(const std::vector<Entry>& entries) {
  std::string file;
  std::string directory;
  for (const Entry& entry : entries) {
    const std::uint32_t size =
        entry.said_size == 0xffffffff ? static_cast<std::uint32_t>(entry.bytes.size()) : entry.said_size;
    const std::uint64_t at = entry.offset < 0 ? file.size() : static_cast<std::uint64_t>(entry.offset);
    append(file, 0x04034b50, 4);
    append(file, 20, 2);
    append_header(file, entry, size);
    append(file, 0, 2);
    file += entry.name + entry.bytes;
    append(directory, 0x02014b50, 4);
    append(directory, 20, 2);
    append(directory, 20, 2);
    append_header(directory, entry, size);
    append(directory, 0, 2 + 2 + 2 + 2 + 4);
    append(directory, at, 4);
    directory += entry.name;
  }
  const std::size_t at = file.size();
  file += directory;
  append(file, 0x06054b50, 4);
  append(file, 0, 4);
  append(file, entries.size(), 2);
  append(file, entries.size(), 2);
  append(file, directory.size(), 4);
  append(file, at, 4);
  append(file, 0, 2);
  return file;
}

/// A pickle {"w": tensor} of fp32 whose parts may be wrong.
struct TensorPickle {
  std::string storage = "FloatStorage";
  std::string key = "0";
  std::int64_t offset = 0;
  std::vector<std::int64_t> shape = {2, 3};
  std::vector<std::int64_t> strides = {3, 1};
  int times = 1;

  std::string text() const {
    PickleWriter pickle;
    pickle.begin_dict();
    for (int i = 0; i < times; ++i) {
      pickle.text("w");
      pickle.global("torch._utils", "_rebuild_tensor_v2");
      pickle.begin_tuple();
      pickle.begin_tuple();
      pickle.text("storage");
      pickle.global("torch", storage);
      pickle.text(key);
      pickle.text("cpu");
      pickle.integer(6);
      pickle.end_tuple();
      pickle.persistent();
      pickle.integer(offset);
      pickle.integers(shape);
      pickle.integers(strides);
      pickle.boolean(false);
      pickle.integers({});
      pickle.end_tuple();
      pickle.call();
    }
    pickle.end_dict();
    return pickle.finish();
  }
};

class TorchFileTest : public testing::Test {
 protected:
  TorchFileTest() {
    std::error_code error;
    const char* const memory = "/dev/shm";  // thousands of small files
    folder_ = fs::path(fs::is_directory(memory, error) ? memory : testing::TempDir()) /
              fmt::format("plumbline_torch_file_test.{}", ::getpid());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~TorchFileTest() override { fs::remove_all(folder_); }

  std::string write(const std::string& bytes) const {
    const std::string path = (folder_ / "t.pt").string();
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  std::string complaint(const std::string& bytes) const {
    return test::refusal_of([&] {
      const TorchFile file(write(bytes));
      file.tensors("");
    });
  }
  fs::path folder_;
};

TEST_F(TorchFileTest, WhatIsWrittenReadsBack) {
  const std::vector<float> w = {1, 2, 3, 4, 5, 6};
  const std::vector<std::uint16_t> b = {7, 8, 9};
  const std::string path = (folder_ / "model_optim_rng.pt").string();
  {
    TorchFileWriter writer(path, {{"model0", {{"w", StoredType::fp32, {2, 3}}, {"b", StoredType::bf16, {3}}}},
                                  {"model1", {{"w", StoredType::fp16, {1, 3}}}}});
    writer.write(std::as_bytes(std::span(w)).first(7));  // in any pieces
    writer.write(std::as_bytes(std::span(w)).subspan(7));
    writer.write(std::as_bytes(std::span(b)));
    EXPECT_FALSE(fs::exists(path)) << "under its name before it is whole";
    EXPECT_THROW(writer.finish(), Error);
    writer.write(std::as_bytes(std::span(b)));
    writer.finish();
  }
  const TorchFile file(path);
  EXPECT_THAT(file.keys(), ElementsAre("checkpoint_version", "iteration", "model0", "model1"));
  const auto tensors = file.tensors("model0");
  ASSERT_EQ(tensors.size(), 2U);
  EXPECT_THAT(tensors.at("w").shape, ElementsAre(2, 3));
  EXPECT_EQ(std::memcmp(tensors.at("w").bytes.data(), w.data(), 24), 0);
  EXPECT_EQ(tensors.at("b").type, StoredType::bf16);
  EXPECT_EQ(std::memcmp(tensors.at("b").bytes.data(), b.data(), 6), 0);
  EXPECT_EQ(file.tensors("model1").at("w").type, StoredType::fp16);
  // Aligned as PyTorch maps them: a mapping begins at a page.
  for (const auto& [name, tensor] : tensors)
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.bytes.data()) % 64, 0U) << name;
  EXPECT_THROW(file.tensors("optimizer"), InputError);
  EXPECT_TRUE(file.tensors("").empty());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

TEST_F(TorchFileTest, SmallestFileOfAnotherWriterIsRead) {
  const std::string bytes =
      zip_of({{"archive/data.pkl", TensorPickle().text()}, {"archive/data/0", std::string(24, '\1')}});
  EXPECT_EQ(complaint(bytes), "accepted");
}

TEST_F(TorchFileTest, DamagedAndHostileArchivesAreRefusedInOneLine) {
  const Entry pickle{"a/data.pkl", TensorPickle().text()};
  const Entry data{"a/data/0", std::string(24, '\1')};
  const std::string good = zip_of({pickle, data});
  const auto with = [&](Entry entry) { return zip_of({pickle, std::move(entry)}); };
  const auto tensor = [&](const TensorPickle& wrong) { return zip_of({{"a/data.pkl", wrong.text()}, data}); };
  struct Case {
    std::string bytes;
    const char* says;
  };
  const std::vector<Case> cases = {
      {"", "no zip archive"},
      {"hello", "no zip archive"},
      {good.substr(0, good.size() - 30), "no zip archive"},
      {good.substr(good.size() / 2), "no zip archive"},
      {"\x80\x02\x8a\x0al\xfc\x9c"
       "F",
       "before PyTorch 1.6"},
      {zip_of({}), "no zip archive"},
      {zip_of({data}), "a zip archive without data.pkl"},
      {zip_of({{"a/data.pkl", "\x80\x02."}}), "takes a value where there is none"},
      {zip_of({{"a/data.pkl", "\x80\x02K\x01."}}), "the file is no dictionary"},
      {zip_of({pickle, data, data}), "entry \"a/data/0\": there twice"},
      {with({"../../etc/passwd", "x"}), "a name that leads out of the archive"},
      {with({"/etc/passwd", "x"}), "a name that leads out of the archive"},
      {with({"a/..", "x"}), "a name that leads out of the archive"},
      {with({"a\\..\\b", "x"}), "a name that leads out of the archive"},
      {with({std::string(2000, 'n'), "x"}), "empty or too long"},
      {with({"a/data/0", std::string(24, '\1'), 8}), "compressed"},
      {with({"a/data/0", std::string(24, '\1'), 0, 1}), "encrypted"},
      {with({"a/data/0", std::string(24, '\1'), 0, 0, 0x7fffffff}), "truncated"},
      {zip_of({pickle, data, {"a/data/1", std::string(24, '\1'), 0, 0, 0xffffffff, 0}}), "damaged"},
      {with({"a/data/1", std::string(24, '\1')}), "its bytes data/0 are missing"},
      {with({"a/data/0", std::string(23, '\1')}), "6 elements from element 0 of 23 bytes: truncated"},
      {zip_of({pickle, data, {"a/byteorder", "big"}}), "big-endian"},
      {tensor({"FloatStorage", "../data.pkl"}), "its bytes data/../data.pkl are missing"},
      {tensor({"ByteStorage"}), "elements of torch ByteStorage"},
      {tensor({"FloatStorage", "0", 1}), "truncated"},
      {tensor({"FloatStorage", "0", -1}), "a shape that is none"},
      {tensor({"FloatStorage", "0", 0, {2, -3}}), "a shape that is none"},
      {tensor({"FloatStorage", "0", 0, {std::int64_t{1} << 40, std::int64_t{1} << 40}, {1, 1}}),
       "a shape that is none"},
      {tensor({"FloatStorage", "0", 0, {2, 3}, {1, 2}}), "expected a contiguous tensor"},
      {tensor({"FloatStorage", "0", 0, {2, 3}, {3}}), "a shape that is none"},
      {tensor({"FloatStorage", "0", 0, {2, 3}, {3, 1}, 2}), "given twice"},
  };
  for (const Case& each : cases) {
    const std::string said = complaint(each.bytes);
    EXPECT_THAT(said, HasSubstr(each.says));
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
  }
}

TEST_F(TorchFileTest, OverlappingEntriesAreRefused) {
  // The second entry's header lies in the first one's bytes.
  std::string inner;
  append(inner, 0x04034b50, 4);
  append(inner, 20, 2);
  const Entry hidden{"b", std::string(4, 'x'), 0, 0, 4, 31};
  append_header(inner, hidden, 4);
  append(inner, 0, 2);
  inner += "bxxxx";
  Entry outer{"a", inner};
  EXPECT_THAT(complaint(zip_of({outer, hidden})), HasSubstr("overlaps"));
}

TEST_F(TorchFileTest, EveryCutAndEveryFlippedByteIsReadOrRefused) {
  const std::string good =
      zip_of({{"a/data.pkl", TensorPickle().text()}, {"a/data/0", std::string(24, '\1')}});
  for (std::size_t i = 0; i < good.size(); ++i) {
    complaint(good.substr(0, i));
    std::string flipped = good;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x41);
    complaint(flipped);  // exceptions other than InputError end the test
  }
}

}  // namespace
}  // namespace plumbline::torch_file_test

// Token ids: files of every supported form, synthetic ones, and refusals.
#include "core/files/token_data.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "core/base/error.hpp"
#include "tests/support/refusal.hpp"

namespace plumbline::token_data_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

template <class T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}
std::string npy(const std::string& dict, const std::string& data, char version = 1) {
  std::string file = std::string("\x93NUMPY") + version + '\0';
  const std::uint32_t length = static_cast<std::uint32_t>(dict.size());
  file.append(reinterpret_cast<const char*>(&length), version == 1 ? 2 : 4);
  return file + dict + data;
}
std::string dict(const std::string& type, const std::string& shape) {
  return "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }          \n";
}
std::string write(const std::string& bytes, const char* name) {
  const fs::path path = fs::path(testing::TempDir()) / (std::to_string(::getpid()) + name);
  std::ofstream(path, std::ios::binary) << bytes;
  return path.string();
}
TokenSource from(const std::string& bytes, const char* name = "plumbline_tokens.npy",
                 std::int64_t vocab = 100) {
  const std::string path = write(bytes, name);
  struct Removal {  // mapped data stays readable
    const std::string& path;
    ~Removal() { fs::remove(path); }
  } const removal{path};
  return {path, vocab, 3, 1};
}
std::string complaint(const std::string& bytes, const char* name = "plumbline_tokens.npy") {
  return test::refusal_of([&] { from(bytes, name); });
}

TEST(TokenFile, EveryFormHoldsTheSameStream) {
  const std::vector<std::int32_t> ids = {5, 6, 7, 8, 9, 10};
  const std::vector<std::int64_t> wide(ids.begin(), ids.end());
  const std::vector<std::uint16_t> narrow(ids.begin(), ids.end());
  const std::vector<std::uint32_t> positive(ids.begin(), ids.end());
  const std::vector<TokenSource> sources = [&] {
    std::vector<TokenSource> list;
    list.push_back(from(npy(dict("<i4", "(6,)"), raw(ids)), "plumbline_a.npy"));
    list.push_back(from(npy(dict("<i8", "(6,)"), raw(wide)), "plumbline_b.npy"));
    list.push_back(from(npy(dict("<u2", "(2, 3)"), raw(narrow)), "plumbline_c.npy"));
    list.push_back(from(npy(dict("<u4", "(6,)"), raw(positive), 2), "plumbline_d.npy"));
    list.push_back(from(raw(ids), "plumbline_e.bin"));
    return list;
  }();
  for (const TokenSource& source : sources) {
    EXPECT_EQ(source.tokens(), 6);
    EXPECT_THAT(source.sample(0), ElementsAre(5, 6, 7, 8));
    EXPECT_THAT(source.sample(1), ElementsAre(8, 9, 10, 5));  // wraps around
    EXPECT_THAT(source.sample(2), ElementsAre(5, 6, 7, 8));
    EXPECT_EQ(source.sample((std::int64_t{1} << 62) + 2), source.sample(((std::int64_t{1} << 62) + 2) % 6));
  }
}

TEST(TokenFile, RefusesWhatDoesNotFit) {
  const std::string two = raw(std::vector<std::int32_t>{1, 2});
  struct Case {
    std::string bytes;
    const char* fragment;
  };
  const std::vector<Case> cases = {
      {npy(dict("<i4", "(3,)"), two), "do not fit the shape"},
      {npy(dict("<i4", "(1,)"), two), "do not fit the shape"},
      {npy(dict("<i4", "(4611686018427387904, 8)"), two), "do not fit the shape"},
      {npy(dict("<i4", "(-2,)"), two), "shape"},
      {npy(dict("<i4", "(99999999999999999999,)"), two), "shape"},
      {npy(dict("<i4", "2"), two), "expected '('"},
      {npy(dict("<i4", "(1, 1, 2)"), two), "3 dimensions"},
      {npy(dict("<i4", "()"), raw(std::vector<std::int32_t>{1})), "0 dimensions"},
      {npy(dict(">i4", "(2,)"), two), "\">i4\""},
      {npy(dict("<f4", "(2,)"), two), "\"<f4\""},
      {npy("{'descr': '<i4', 'fortran_order': True, 'shape': (1, 2)}", two), "Fortran order"},
      {npy("{'descr': '<i4', 'shape': (2,)}", two), "expected descr, fortran_order and shape"},
      {npy("{'descr': '<i4', 'descr': '<i4', 'shape': (2,)}", two), "given twice"},
      {npy("{'descr': '<i4', 'other': 3}", two), "unknown"},
      {npy("{'descr': '<i4", two), "quoted text"},
      {npy(std::string(1000, '{'), two), "quoted text"},
      {npy(dict("<i4", "(2,)"), two, 3), "version 3"},
      {npy(dict("<i4", "(2,)"), two).substr(0, 9), "truncated"},
      {npy(dict("<i4", "(2,)"), two).substr(0, 30), "truncated"},
      {two, "missing"},
      {"", "missing"},
      {npy(dict("<i4", "(1,)"), raw(std::vector<std::int32_t>{1})), "1 token ids"},
      {npy(dict("<i4", "(3,)"), raw(std::vector<std::int32_t>{1, 100, 2})),
       "token 1 is 100, expected an id from 0 to 99"},
      {npy(dict("<i4", "(3,)"), raw(std::vector<std::int32_t>{1, 2, -1})), "token 2 is -1"},
      {npy(dict("<i8", "(2,)"), raw(std::vector<std::int64_t>{1, std::int64_t{1} << 33})),
       "token 1 is 8589934592"},
  };
  for (const Case& c : cases) EXPECT_THAT(complaint(c.bytes), HasSubstr(c.fragment));
  EXPECT_THAT(complaint("12345", "plumbline_tokens.bin"), HasSubstr("5 bytes long"));
  EXPECT_THROW(TokenSource("/nonexistent/tokens.npy", 100, 3, 1), InputError);
  EXPECT_THROW(TokenSource("", 0, 3, 1), InputError);
}

TEST(SyntheticTokens, DependOnSeedAndSampleOnly) {
  const TokenSource a("", 97, 1000, 1);
  const TokenSource again("", 97, 1000, 1);
  const TokenSource other("", 97, 1000, 2);
  EXPECT_EQ(a.tokens(), 0);
  EXPECT_EQ(a.sample(5), again.sample(5));
  EXPECT_NE(a.sample(5), a.sample(6));
  EXPECT_NE(a.sample(5), other.sample(5));
  const std::vector<std::int32_t> ids = a.sample(0);
  ASSERT_EQ(ids.size(), 1001U);
  std::set<std::int32_t> seen(ids.begin(), ids.end());
  EXPECT_EQ(seen.size(), 97U);  // 1001 even draws of 97 miss one with probability 3e-3
  EXPECT_GE(*seen.begin(), 0);
  EXPECT_LT(*seen.rbegin(), 97);
  // A longer sequence starts with the same ids.
  const TokenSource longer("", 97, 1003, 1);
  const std::vector<std::int32_t> more = longer.sample(0);
  EXPECT_TRUE(std::equal(ids.begin(), ids.end(), more.begin()));
}

}  // namespace
}  // namespace plumbline::token_data_test

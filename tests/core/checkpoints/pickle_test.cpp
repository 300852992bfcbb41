// Pickles: files of torch.save are read, and any other content is refused in one line, unexecuted.
#include "core/checkpoints/pickle.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "tests/support/refusal.hpp"

namespace plumbline::pickle_test {
namespace {

using testing::HasSubstr;

Pickle read(const std::string& bytes) {
  return read_pickle(std::as_bytes(std::span(bytes)), "model.pt");
}
std::string complaint(const std::string& bytes) {
  return test::refusal_of([&] { read(bytes); });
}
std::string text(const std::string& value) {
  return std::string("X") + static_cast<char>(value.size()) + std::string(3, '\0') + value;
}

TEST(PickleTest, WhatIsWrittenReadsBack) {
  PickleWriter writer;
  writer.begin_dict();
  writer.text("numbers");
  writer.integers({0, -1, 1 << 30, std::int64_t{1} << 40, -(std::int64_t{1} << 40)});
  writer.text("yes");
  writer.boolean(true);
  writer.text("made");
  writer.global("collections", "OrderedDict");
  writer.integers({});
  writer.call();
  writer.end_dict();
  const Pickle pickle = read(writer.finish());
  const PickleValue& root = pickle[pickle.root];
  ASSERT_EQ(root.kind, PickleKind::dict);
  ASSERT_EQ(root.items.size(), 6U);
  EXPECT_EQ(pickle[root.items[0]].text, "numbers");
  std::vector<std::int64_t> numbers;
  for (const std::uint32_t item : pickle[root.items[1]].items) numbers.push_back(pickle[item].integer);
  EXPECT_THAT(numbers, testing::ElementsAre(0, -1, 1 << 30, std::int64_t{1} << 40, -(std::int64_t{1} << 40)));
  EXPECT_EQ(pickle[root.items[3]].integer, 1);
  EXPECT_EQ(pickle[root.items[5]].kind, PickleKind::object);
}

TEST(PickleTest, MemoListsStatesAndOlderOperationsAreRead) {
  // {"a": [1, 2], "b": the same list}, a state that is set, bytes and a set.
  const std::string shared = "\x80\x02}(" + text("a") + "](K\x01K\x02" + "eq\x05" + text("b") + "h\x05u.";
  const Pickle pickle = read(shared);
  const PickleValue& root = pickle[pickle.root];
  ASSERT_EQ(root.items.size(), 4U);
  EXPECT_EQ(root.items[1], root.items[3]);
  EXPECT_EQ(pickle[root.items[1]].items.size(), 2U);
  const Pickle real = read("\x80\x02G@\x0c" + std::string(6, '\0') + ".");
  EXPECT_EQ(real[real.root].real, 3.5);
  const std::string state =
      "\x80\x02"
      "cargparse\nNamespace\n)\x81}" +
      text("tp") + "K\x02sb.";
  EXPECT_EQ(read(state)[read(state).root].called.size(), 3U);
  EXPECT_EQ(complaint("\x80\x04\x95" + std::string(8, '\0') + "\x8c\x01z\x94\x8f(K\x01\x90" + "\x86."),
            "accepted");
}

TEST(PickleTest, AnythingElseIsRefusedInOneLine) {
  struct Case {
    std::string bytes;
    const char* says;
  };
  const std::string proto = "\x80\x02";
  const std::vector<Case> cases = {
      {"", "byte 0: ends in the middle"},
      {proto, "byte 2: ends in the middle"},
      {"\x80\x06.", "protocol 6, expected at most 5"},
      {proto + "cos\nsystem\n(" + text("rm -rf /") + "tR.", "names os.system, which no checkpoint needs"},
      {proto + "cposix\nsystem\n.", "names posix.system"},
      {proto + "cbuiltins\neval\n.", "names builtins.eval"},
      {proto + "ctorch.storage\n_load_from_bytes\n.", "names torch.storage._load_from_bytes"},
      {proto + "cmegatronx\nA\n.", "names megatronx.A"},
      {proto + text("os") + text("system") + "\x93.", "names os.system"},
      {proto + "K\x01K\x02\x93.", "a name that is no text"},
      {proto + "(S'a'\nios\nsystem\n.", "operation 0x53, which torch.save does not write"},
      {proto + "Pid\n.", "operation 0x50"},
      {proto + "\x82\x01.", "operation 0x82"},
      {proto + "\x8b\xff\xff\xff\x7f.", "operation 0x8b"},
      {proto + "X\xff\xff\xff\xff"
               "abc",
       "ends in the middle of a value"},
      {proto + std::string("\x8e\xff\xff\xff\xff\xff\xff\xff\xff", 9), "ends in the middle of a value"},
      {proto + "ccollections", "ends in the middle of a name"},
      {proto + "R.", "takes a value where there is none"},
      {proto + "(R.", "takes a value where there is none"},
      {proto + "K\x01)R.", "calls what is no name"},
      {proto + "t.", "goes back to a mark that is not there"},
      {proto + "h\x07.", "refers to value 7"},
      {proto + "}(K\x01u.", "a dictionary with a key without value"},
      {proto + "K\x01K\x02"
               "a.",
       "adds to what is no container"},
      {proto + "}}b.", "sets the state of what is no object"},
      {proto + "NN.", "ends with values left over"},
      {proto + "q\x01.", "changes a value where there is none"},
      {proto + "\x85.", "takes a value where there is none"},
  };
  for (const Case& each : cases) {
    const std::string said = complaint(each.bytes);
    EXPECT_THAT(said, HasSubstr(each.says));
    EXPECT_THAT(said, HasSubstr("model.pt: pickle"));
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
  }
}

TEST(PickleTest, SharedValuesDoNotMultiplyAndCirclesDoNotHang) {
  // Sixty lists, each twice in the next: 2^60 values if unfolded.
  std::string folded = "\x80\x02]q";
  folded += '\0';
  for (int i = 0; i < 60; ++i) {
    folded += "](h";
    folded += static_cast<char>(i);
    folded += "h";
    folded += static_cast<char>(i);
    folded += "eq";
    folded += static_cast<char>(i + 1);
  }
  // The rest below the last list, as one tuple.
  const Pickle pickle = read("\x80\x02(" + folded.substr(2) + "t.");
  EXPECT_EQ(pickle.values.size(), 62U);
  EXPECT_EQ(complaint("\x80\x02]q\x01h\x01"
                      "a."),
            "accepted");
}

}  // namespace
}  // namespace plumbline::pickle_test

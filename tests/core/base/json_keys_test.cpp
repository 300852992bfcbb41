// One reader of JSON: accepted values, and complaints that name file, path, what was found and expected.
#include "core/base/json_keys.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "core/base/error.hpp"
#include "tests/support/refusal.hpp"

namespace plumbline::json_keys_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::StartsWith;

constexpr const char* kText = R"({
  "whole": 7, "large": 18446744073709551615, "negative": -3, "real": 2.5, "text": "a\u0001b", "yes": true,
  "nothing": null, "deep": {"deeper": {"x": "y"}}, "rows": [{"a": 1}, {"a": "one"}, 3], "numbers": [1, 2.5],
  "words": ["a", "b"], "mixed": [1, "b"], "named": {"z": {"k": 1}, "a b\n": {"k": 2}, "bad": 5},
  "plain": {"z": 1, "a": "t", "m": true}})";

std::string complaint(const std::function<void()>& call) {
  return test::refusal_of([&] { call(); });
}

TEST(JsonKeys, ReadsEveryKind) {
  const Json json = parse_json_object(kText, "f.json");
  const JsonKeys keys(json, "f.json");
  EXPECT_EQ(keys.integer("whole", 10), 7);
  EXPECT_EQ(keys.integer("negative", -3, 0), -3);
  EXPECT_EQ(keys.integer_or("absent", 10, 4), 4);
  EXPECT_EQ(keys.integer_or("nothing", 0, 10, 4), 4);
  EXPECT_EQ(keys.number("real"), 2.5);
  EXPECT_EQ(keys.number("whole", 0), 7);
  EXPECT_EQ(keys.number_or("absent", 0, 1, 0.5), 0.5);
  EXPECT_TRUE(std::isnan(keys.number_or_null("nothing", 0)));
  EXPECT_EQ(keys.number_or_null("real", 0), 2.5);
  EXPECT_TRUE(keys.boolean("yes"));
  EXPECT_FALSE(keys.boolean_or("absent", false));
  EXPECT_EQ(keys.string_or("absent", "x"), "x");
  EXPECT_EQ(keys.object("deep").object("deeper").string("x"), "y");
  EXPECT_THAT(keys.numbers("numbers", 0, 9), ElementsAre(1, 2.5));
  EXPECT_THAT(keys.strings("words"), ElementsAre("a", "b"));
  EXPECT_EQ(keys.list("rows").size(), 3U);
  EXPECT_THAT(keys.texts("plain"), ElementsAre(Pair("a", "t"), Pair("m", "true"), Pair("z", "1")));
  EXPECT_EQ(keys.find("nothing"), nullptr);
  EXPECT_EQ(keys.place("whole"), "f.json: whole");
  EXPECT_EQ(keys.object("deep").object("deeper").place("x"), "f.json: deep.deeper.x");
}

TEST(JsonKeys, OrderedKeysStayInOrder) {
  const auto json = parse_json_object<OrderedJson>(kText, "f.json");
  const OrderedJsonKeys keys(json, "f.json");
  EXPECT_THAT(keys.texts("plain"), ElementsAre(Pair("z", "1"), Pair("a", "t"), Pair("m", "true")));
}

TEST(JsonKeys, AKeyTwiceIsRefusedByName) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"a": 1, "b": 2, "a": 1})", "f.json: a: found twice, expected once; remove one"},
      {R"({"a": {"b": {"c": 1, "d": 2, "c": null}}})",
       "f.json: a.b.c: found twice, expected once; remove one"},
      {R"({"x": [{"a": 1}, {"a": 1, "\u0061": []}]})", "f.json: x.a: found twice, expected once; remove one"},
      {R"({"a": {"b": 1}, "c": {"b": 1}, "b": [{"b": 1}, {"b": {"b": 2}}]})", "accepted"},
      {R"({"a": {}, "a": {}})", "f.json: a: found twice, expected once; remove one"},
  };
  for (const auto& [text, said] : cases) {
    EXPECT_EQ(complaint([&, text = text] { parse_json_object(text, "f.json"); }), said) << text;
    EXPECT_EQ(complaint([&, text = text] { parse_json_object<OrderedJson>(text, "f.json"); }), said) << text;
  }
}

TEST(JsonKeys, EveryComplaintHasPathFoundAndExpected) {
  const Json json = parse_json_object(kText, "f.json");
  const JsonKeys keys(json, "f.json");
  struct Case {
    std::function<void()> call;
    const char* line;
  };
  const Case cases[] = {
      {[&] { keys.integer("absent", 9); }, "f.json: absent: missing; expected a whole number from 1 to 9"},
      {[&] { keys.integer("nothing", 9); }, "f.json: nothing: missing; expected a whole number from 1 to 9"},
      {[&] { keys.integer("whole", 6); }, "f.json: whole: found 7, expected a whole number from 1 to 6"},
      {[&] { keys.integer("real", 9); }, "f.json: real: found 2.5, expected a whole number from 1 to 9"},
      {[&] { keys.integer("negative", 0, 9); },
       "f.json: negative: found -3, expected a whole number from 0 to 9"},
      {[&] { keys.integer("large", 0, std::numeric_limits<std::int64_t>::max()); },
       "f.json: large: found 18446744073709551615, expected a whole number from 0 to 9223372036854775807"},
      {[&] { keys.integer("large", -5, -1); },
       "f.json: large: found 18446744073709551615, expected a whole number from -5 to -1"},
      {[&] { keys.number("text"); }, R"(f.json: text: found "a\u0001b", expected a number)"},
      {[&] { keys.number("negative", 0); },
       "f.json: negative: found -3, expected a number that is not negative"},
      {[&] { keys.number("real", 3, 4); }, "f.json: real: found 2.5, expected a number from 3 to 4"},
      {[&] { keys.number("real", 3); }, "f.json: real: found 2.5, expected a number of at least 3"},
      {[&] { keys.number_or_null("absent", 0); },
       "f.json: absent: missing; expected a number that is not negative"},
      {[&] { keys.boolean("whole"); }, "f.json: whole: found 7, expected true or false"},
      {[&] { keys.string("whole"); }, "f.json: whole: found 7, expected a text"},
      {[&] { keys.object("whole"); }, "f.json: whole: found 7, expected a JSON object"},
      {[&] { keys.object("absent"); }, "f.json: absent: missing; expected a JSON object"},
      {[&] { keys.object("deep").object("deeper").integer("x", 1); },
       R"(f.json: deep.deeper.x: found "y", expected a whole number from 1 to 1)"},
      {[&] { keys.list("deep"); }, R"(f.json: deep: found {"deeper":{"x":"y"}}, expected a list)"},
      {[&] { keys.list("numbers", 1); }, "f.json: numbers: found [1,2.5], expected a list, 1 at most"},
      {[&] { keys.objects("rows"); }, "f.json: rows[2]: found 3, expected a JSON object"},
      {[&] { keys.numbers("mixed", 0, 9); }, R"(f.json: mixed[1]: found "b", expected a number from 0 to 9)"},
      {[&] { keys.strings("mixed"); }, "f.json: mixed[0]: found 1, expected a text"},
      {[&] { keys.members("named"); }, "f.json: named.bad: found 5, expected a JSON object"},
      {[&] { keys.texts("named"); }, R"(f.json: named.a b?: found {"k":2}, expected a plain value)"},
      {[&] { keys.refuse("", "something else"); }, "f.json: found {"},
  };
  for (const Case& c : cases) {
    const std::string line = complaint(c.call);
    EXPECT_THAT(line, StartsWith(c.line));
    EXPECT_EQ(line.find('\n'), std::string::npos);
  }
}

TEST(JsonKeys, RowsAndMembersKnowTheirPath) {
  const Json json = parse_json_object(R"({"rows":[{"a":1},{"a":"one"}],"named":{"z":{"k":0}}})", "f.json");
  const JsonKeys keys(json, "f.json");
  const std::vector<JsonKeys> rows = keys.objects("rows");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].integer("a", 9), 1);
  EXPECT_EQ(complaint([&] { rows[1].integer("a", 9); }),
            "f.json: rows[1].a: found \"one\", expected a whole number from 1 to 9");
  const auto members = keys.members("named");
  ASSERT_EQ(members.size(), 1U);
  EXPECT_EQ(members[0].first, "z");
  EXPECT_EQ(complaint([&] { members[0].second.integer("k", 9); }),
            "f.json: named.z.k: found 0, expected a whole number from 1 to 9");
}

TEST(JsonKeys, KeysNobodyAskedForAreRefused) {
  const Json json = parse_json_object(R"({"a":1,"b":null,"in":{"c":1,"odd one":2}})", "f.json");
  const JsonKeys keys(json, "f.json");
  keys.integer("a", 9);
  EXPECT_EQ(complaint([&] { keys.refuse_unknown(); }), "f.json: unknown key b");
  keys.integer_or("b", 9, 1);  // a null was asked for too
  const JsonKeys in = keys.object("in");
  EXPECT_EQ(complaint([&] { keys.refuse_unknown(); }), "accepted");
  in.integer("c", 9);
  EXPECT_EQ(complaint([&] { in.refuse_unknown(); }), "f.json: unknown key in.odd one");
}

TEST(JsonKeys, ANullCanBeRefused) {
  const Json json = parse_json_object(R"({"a":null,"in":{"b":null}})", "f.json");
  const JsonKeys keys(json, "f.json", JsonNull::refused);
  EXPECT_EQ(complaint([&] { keys.integer_or("a", 9, 1); }),
            "f.json: a: found null, expected a whole number from 1 to 9");
  EXPECT_EQ(complaint([&] { keys.object("in").string_or("b", ""); }),
            "f.json: in.b: found null, expected a text");
}

TEST(JsonKeys, TextThatIsNoObjectIsRefused) {
  struct Case {
    std::string text;
    const char* says;
  };
  const Case cases[] = {
      {"", "not valid JSON"},
      {"{", "not valid JSON"},
      {"{} x", "not valid JSON"},
      {"{\"a\":1e999}", "not valid JSON"},
      {"\xff", "not valid JSON"},
      {"[]", "expected a JSON object"},
      {"3", "expected a JSON object"},
      {std::string(100'000, '['), "nested deeper than the 4 levels"},
      {R"({"a":{"b":{"c":{"d":{"e":{}}}}}})", "nested deeper than the 4 levels"},
  };
  for (const Case& c : cases) {
    const std::string line = complaint([&] { parse_json_object(c.text, "f.json", 4); });
    EXPECT_THAT(line, StartsWith("f.json: "));
    EXPECT_THAT(line, HasSubstr(c.says));
    EXPECT_EQ(complaint([&] { parse_json_object<OrderedJson>(c.text, "f.json", 4); }), line);
    EXPECT_EQ(line.find('\n'), std::string::npos);
  }
  EXPECT_EQ(complaint([] { JsonKeys(Json(3), "f.json"); }), "f.json: found 3, expected a JSON object");
}

TEST(JsonKeys, TooManyValuesAreRefusedBeforeTheyAreAllThere) {
  // An object or a list is counted twice, at its begin and at its end, and a key once: two values' worth
  // each.
  const std::string text = R"({"a":[1,2,3,4,5,6]})";
  EXPECT_EQ(parse_json_object(text, "f.json", 4, 6).at("a").size(), 6U);
  EXPECT_EQ(complaint([&] { parse_json_object(text, "f.json", 4, 5); }),
            "f.json: JSON of more than the 5 values that are expected at most");
  // A refused text need not be whole.
  EXPECT_EQ(complaint([&] { parse_json_object(R"({"a":[1,2,3,4,5,6,7,8,)", "f.json", 4, 4); }),
            "f.json: JSON of more than the 4 values that are expected at most");
}

// One that keeps its order compares every key with all before it: 80,000 took 21 s.
TEST(JsonKeys, BoundsTheKeysOfAnOrderedObject) {
  const auto object_of = [](int keys) {
    std::string text = "{\"a\": {";
    for (int i = 0; i < keys; ++i) text += (i == 0 ? "\"k" : ", \"k") + std::to_string(i) + "\": 1";
    return text + "}, \"b\": [{\"c\": 1}, {\"c\": 2}]}";
  };
  EXPECT_EQ(complaint([&] { parse_json_object<OrderedJson>(object_of(10'000), "f.json"); }), "accepted");
  EXPECT_THAT(complaint([&] { parse_json_object<OrderedJson>(object_of(80'000), "f.json"); }),
              HasSubstr("f.json: JSON object of more than the 10000 keys"));
  EXPECT_EQ(complaint([&] { parse_json_object(object_of(80'000), "f.json"); }), "accepted");
}

}  // namespace
}  // namespace plumbline::json_keys_test

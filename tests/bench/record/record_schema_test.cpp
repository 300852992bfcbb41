// The published schema against the records that the program writes and reads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "tests/bench/record/record_support.hpp"

namespace plumbline::record_schema_test {
namespace {

/// The part of JSON Schema that record.schema.json uses; complaints are "path: keyword".
class Validator {
 public:
  explicit Validator(const OrderedJson& root) : root_(root) {}

  std::vector<std::string> check(const OrderedJson& value) {
    check(root_, value, "");
    return complaints_;
  }

 private:
  static bool is_type(const std::string& type, const OrderedJson& value) {
    return type == "object"    ? value.is_object()
           : type == "array"   ? value.is_array()
           : type == "string"  ? value.is_string()
           : type == "boolean" ? value.is_boolean()
           : type == "integer" ? value.is_number_integer()
           : type == "number"  ? value.is_number()
                               : type == "null" && value.is_null();
  }

  void check(const OrderedJson& schema, const OrderedJson& value, const std::string& path) {
    if (schema.contains("$ref")) {
      const auto pointer = schema["$ref"].get<std::string>().substr(1);
      check(root_.at(OrderedJson::json_pointer(pointer)), value, path);
      return;
    }
    if (schema.contains("type")) {
      bool fits = false;
      for (const OrderedJson& type : schema["type"].is_array() ? schema["type"] : OrderedJson{schema["type"]})
        fits = fits || is_type(type, value);
      if (!fits) complaints_.push_back(path + ": type");
    }
    if (schema.contains("enum")) {
      bool found = false;
      for (const OrderedJson& known : schema["enum"]) found = found || known == value;
      if (!found) complaints_.push_back(path + ": enum");
    }
    if (value.is_number() && schema.contains("minimum") && value < schema["minimum"])
      complaints_.push_back(path + ": minimum");
    if (value.is_number() && schema.contains("maximum") && value > schema["maximum"])
      complaints_.push_back(path + ": maximum");
    if (value.is_array() && schema.contains("items")) {
      for (const OrderedJson& item : value) check(schema["items"], item, path + "[]");
    }
    if (!value.is_object() || !schema.contains("properties")) return;
    for (const OrderedJson& key : schema["required"]) {
      if (!value.contains(key)) complaints_.push_back(path + "/" + key.get<std::string>() + ": required");
    }
    for (const auto& [key, inner] : value.items()) {
      const std::string at = std::string(path).append("/").append(key);
      if (schema["properties"].contains(key)) {
        check(schema["properties"][key], inner, at);
      } else if (schema.contains("additionalProperties")) {
        check(schema["additionalProperties"], inner, at);
      } else {
        complaints_.push_back(at + ": not in the schema");
      }
    }
  }

  const OrderedJson& root_;
  std::vector<std::string> complaints_;
};

OrderedJson schema() {
  std::ifstream in(std::string(PLUMBLINE_SOURCE_DIR) + "/results/record.schema.json");
  return OrderedJson::parse(in);
}

TEST(RecordSchema, DescribesEveryKeyThatIsWritten) {
  const OrderedJson root = schema();
  EXPECT_THAT(Validator(root).check(to_json(sample_record("a"))), ::testing::IsEmpty());
  Record without_times = sample_record("b");
  without_times.measurement->time.step = without_times.measurement->step_min = {NAN};
  without_times.measurement->throughput.mfu = without_times.error->step_time = NAN;
  EXPECT_THAT(Validator(root).check(to_json(without_times)), ::testing::IsEmpty());
  Record bare;
  bare.status = Status::unsupported;
  EXPECT_THAT(Validator(root).check(to_json(bare)), ::testing::IsEmpty());
}

TEST(RecordSchema, RefusesWhatIsWrong) {
  const OrderedJson root = schema();
  OrderedJson json = to_json(sample_record("a"));
  json["schema"] = 2;
  json["status"] = "fine";
  json["prediction"]["memory"]["ranks"][0]["rank"] = -1;
  json["measurement"]["time"].erase("step_s");
  json["error"]["surprise"] = 1;
  EXPECT_THAT(Validator(root).check(json),
              ::testing::UnorderedElementsAre(
                  "/schema: maximum", "/status: enum", "/prediction/memory/ranks[]/rank: minimum",
                  "/measurement/time/step_s: required", "/error/surprise: not in the schema"));
}

}  // namespace
}  // namespace plumbline::record_schema_test

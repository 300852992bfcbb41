// The published schema and the reference page are those that the tables of keys and of columns give.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "bench/record/tables/record_schema.hpp"
#include "bench/show/text/cell_columns.hpp"
#include "tests/bench/record/record_support.hpp"

namespace plumbline::record_page_test {
namespace {

constexpr const char* kGenerated = "\n## Keys\n";

/// A key, as a link to the object that it holds.
std::string shown_key(const FieldText& field) {
  return field.object.empty() ? fmt::format("`{}`", field.key)
                              : fmt::format("[`{}`](#{})", field.key, field.object);
}

/// Neighbouring keys of one meaning share a row.
std::string rows_of(const ObjectText& object) {
  std::string rows = "| key | content |\n|---|---|\n";
  for (std::size_t i = 0; i < object.fields.size();) {
    const std::string& meaning = object.fields[i].meaning;
    std::string keys;
    for (; i < object.fields.size() && object.fields[i].meaning == meaning; ++i)
      keys += (keys.empty() ? "" : ", ") + shown_key(object.fields[i]);
    rows += fmt::format("| {} | {} |\n", keys, meaning);
  }
  return rows;
}

std::string keys_text() {
  std::string text;
  for (const ObjectText& object : record_objects()) {
    text += fmt::format("\n### {}\n", object.name);
    if (!object.introduction.empty()) text += object.introduction + "\n";
    if (object.repeats) continue;
    text += (object.introduction.empty() ? "" : "\n") + rows_of(object);
  }
  return text;
}

std::string columns_text() {
  Record slow = sample_record("a");
  slow.prediction->time.step = slow.measurement->time.step = {2};
  const CellUnits units({slow});
  std::string text = "\n## Columns\n| quantity | column | CSV | record |\n|---|---|---|---|\n";
  for (const CellColumn& column : cell_columns()) {
    if (column.csv.empty()) continue;
    const std::string group = units.group(column);
    text += fmt::format("| {} | {} | `{}` | {} |\n", group.substr(0, group.find(',')), column.label({}),
                        column.csv, column.json.empty() ? "" : fmt::format("`{}`", column.json));
  }
  return text;
}

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(RecordPage, SchemaAndPageAreCurrent) {
  const std::string results = std::string(PLUMBLINE_SOURCE_DIR) + "/results/";
  const std::string page = contents(results + "README.md");
  const struct {
    std::string name;
    std::string text;
  } files[] = {
      {"record.schema.json", record_schema()},
      {"README.md", page.substr(0, page.find(kGenerated)) + kGenerated + keys_text() + columns_text()}};
  for (const auto& file : files) {
    if (contents(results + file.name) == file.text) continue;
    const std::string made = (std::filesystem::temp_directory_path() / file.name).string();
    std::ofstream(made) << file.text;
    ADD_FAILURE() << file.name << " is not what the tables of bench/record/tables give; run: cp " << made
                  << " " << results << file.name;
  }
}

}  // namespace
}  // namespace plumbline::record_page_test

#include "analysis/published/dialect/table_header.hpp"

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/yaml_text.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kMaxHeaderBytes = std::size_t{1} << 18;

/// A plain value as a cell has it.
std::string cell_text(const Json& value, const JsonKeys& keys, const std::string& key) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null()) return "";
  if (value.is_number() || value.is_boolean()) return value.dump();
  keys.fail(key, fmt::format("found {}, expected a text, a number, true or false", JsonKeys::shown(value)));
}

Cells cells_of(const Json& object, const JsonKeys& keys, const std::string& key) {
  if (!object.is_object()) {
    keys.fail(key, fmt::format("found {}, expected \"column: value\" lines", JsonKeys::shown(object)));
  }
  Cells cells;
  for (const auto& [column, value] : object.items()) cells[column] = cell_text(value, keys, key);
  return cells;
}

Cells cells_at(const JsonKeys& keys, const std::string& key) {
  const Json* object = keys.find(key);
  return object == nullptr ? Cells{} : cells_of(*object, keys, key);
}

/// A name, nothing for a column that is not used, or a mapping {key, scale, values}.
SourceColumn column_of(const Json& value, const JsonKeys& keys, const std::string& name) {
  SourceColumn column;
  if (value.is_null()) return column;
  if (value.is_string()) {
    column.key = value.get<std::string>();
    return column;
  }
  const JsonKeys parts(value, keys.origin(), JsonNull::missing, fmt::format("columns.{}", name));
  column.key = parts.string_or("key", "");
  column.scale = parts.number_or("scale", -1e30, 1e30, 1);
  if (const Json* values = parts.find("values")) {
    if (!values->is_object()) parts.refuse("values", "\"text in the cell: {column: value}\" lines");
    for (const auto& [text, meaning] : values->items()) {
      if (meaning.is_object()) {
        column.values[text] = cells_of(meaning, parts, "values");
      } else if (meaning.is_null()) {
        column.values[text] = {};
      } else if (!column.key.empty()) {
        column.values[text] = {{column.key, cell_text(meaning, parts, "values")}};
      } else {
        parts.fail("values", fmt::format("found {}, expected {{column: value}}, or a key as well",
                                         JsonKeys::shown(meaning)));
      }
    }
  }
  parts.refuse_unknown();
  return column;
}

SourceColumns columns_at(const JsonKeys& keys) {
  SourceColumns columns;
  const Json* object = keys.find("columns");
  if (object == nullptr) return columns;
  if (!object->is_object()) keys.refuse("columns", "\"column of the file: key\" lines");
  for (const auto& [name, value] : object->items()) columns[name] = column_of(value, keys, name);
  return columns;
}

}  // namespace

TableHeader parse_header(const std::string& yaml, const std::string& origin) {
  if (yaml.size() > kMaxHeaderBytes) {
    throw InputError(fmt::format("{}: {} bytes, expected at most {}", origin, yaml.size(), kMaxHeaderBytes));
  }
  const Json object = parse_yaml_object(yaml, origin);
  const JsonKeys keys(object, origin);
  TableHeader header;
  header.title = keys.string_or("title", "");
  header.source = keys.string_or("source", "");
  header.defaults = cells_at(keys, "defaults");
  for (const char* key : {"flops", "peak_tflops", "memory"}) {
    if (const Json* value = keys.find(key)) header.defaults[key] = cell_text(*value, keys, key);
  }
  header.label = keys.string_or("label", "");
  header.sweep = keys.string_or("sweep", "");
  header.columns = columns_at(keys);
  if (keys.find("runs") != nullptr) {
    constexpr std::size_t kMostRuns = 64;
    for (const JsonKeys& run : keys.objects("runs", kMostRuns)) {
      header.runs.push_back({cells_at(run, "defaults"), columns_at(run)});
      run.refuse_unknown();
    }
  }
  keys.refuse_unknown();
  return header;
}

}  // namespace plumbline

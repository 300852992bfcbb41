#include "bench/record/tables/record_schema.hpp"

#include <fmt/format.h>

#include "bench/record/tables/object_tables.hpp"

namespace plumbline {
namespace {

/// Members of an object, one a line.
std::string lines_of(const OrderedJson& object, const std::string& indent) {
  std::string text;
  for (const auto& [key, value] : object.items())
    text +=
        fmt::format("{}{}{}: {}", text.empty() ? "" : ",\n", indent, OrderedJson(key).dump(), value.dump());
  return text;
}

/// The schema of an object, without its brackets.
std::string object_lines(const ObjectText& object, const std::string& indent) {
  OrderedJson properties = OrderedJson::object();
  OrderedJson required = OrderedJson::array();
  for (const FieldText& field : object.fields) {
    OrderedJson schema = field.schema;
    if (!field.meaning.empty()) schema["description"] = field.meaning;
    properties[field.key] = std::move(schema);
    if (field.required) required.push_back(field.key);
  }
  const OrderedJson type = object.or_null ? OrderedJson{"object", "null"} : OrderedJson("object");
  return fmt::format("{0}\"type\": {1},\n{0}\"properties\": {{\n{2}\n{0}}},\n{0}\"required\": {3}", indent,
                     type.dump(), lines_of(properties, indent + "  "), required.dump());
}

}  // namespace

OrderedJson number_schema(const char* type, const ValueRule& rule) {
  const bool null = rule.presence == Presence::or_null || rule.presence == Presence::or_missing;
  OrderedJson schema = {{"type", null ? OrderedJson{type, "null"} : OrderedJson(type)}};
  const auto bound = [&](const char* key, double value) {
    if (std::abs(value) < 1e6) schema[key] = static_cast<std::int64_t>(value);
  };
  bound("minimum", rule.min);
  bound("maximum", rule.max);
  return schema;
}

OrderedJson list_schema(OrderedJson items) {
  return {{"type", "array"}, {"items", std::move(items)}};
}

OrderedJson object_schema(const std::string& name) {
  return {{"$ref", "#/$defs/" + name}};
}

std::vector<ObjectText> record_objects() {
  std::vector<ObjectText> objects;
  collect(table_of<Record>(), objects);
  return objects;
}

std::string record_schema() {
  const std::vector<ObjectText> objects = record_objects();
  std::string text = fmt::format(
      "{{\n  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n  \"title\": \"plumbline "
      "record\",\n  \"description\": \"One cell of a matrix: its configuration, prediction and measurement. "
      "See README.md.\",\n{},\n  \"$defs\": {{\n",
      object_lines(objects.front(), "  "));
  for (std::size_t i = 1; i < objects.size(); ++i) {
    text += fmt::format("{}    \"{}\": {{\n{}\n    }}", i == 1 ? "" : ",\n", objects[i].name,
                        object_lines(objects[i], "      "));
  }
  return text + "\n  }\n}\n";
}

}  // namespace plumbline

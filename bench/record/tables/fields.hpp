// Objects of the record as tables of keys. One line per key gives its writer, its reader, the JSON Schema
// (results/record.schema.json) and the reference page (results/README.md).
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json_keys.hpp"

namespace plumbline {

struct ObjectText;
/// A key for the schema and the reference page.
struct FieldText {
  std::string key;
  std::string object;   // name of the object that it holds, or a list of; empty: none
  std::string meaning;  // in Markdown; empty: the object says it
  OrderedJson schema;
  bool required = true;
  /// Adds the objects that the value consists of; empty: none.
  std::function<void(std::vector<ObjectText>&)> nested{};
};
struct ObjectText {
  std::string name;
  std::string introduction;  // in Markdown, above the table of keys
  bool or_null = false;
  bool repeats = false;  // the keys of a table before it, which the page does not show again
  std::vector<FieldText> fields{};
};

template <class Owner>
struct Field {
  FieldText text;
  /// The value; nothing: left out.
  std::function<std::optional<OrderedJson>(const Owner&)> write;
  /// Throws InputError as parse_record does; empty: the value follows from others.
  std::function<void(Owner&, const OrderedJsonKeys&)> read;

  /// Written under a condition only.
  Field when(std::function<bool(const Owner&)> condition) && {
    write = [inner = std::move(write), condition = std::move(condition)](const Owner& owner) {
      return condition(owner) ? inner(owner) : std::nullopt;
    };
    text.required = false;
    return std::move(*this);
  }
  /// Known values of a text, for the schema; readers accept others.
  Field among(const std::vector<std::string>& values) && {
    text.schema["enum"] = values;
    return std::move(*this);
  }
  /// Checked by readers once the value is there.
  Field checked(std::function<void(const Owner&, const OrderedJsonKeys&)> check) && {
    read = [inner = std::move(read), check = std::move(check)](Owner& owner, const OrderedJsonKeys& keys) {
      inner(owner, keys);
      check(owner, keys);
    };
    return std::move(*this);
  }
};

/// One object of the record, in the order of its keys.
template <class Owner>
struct ObjectTable {
  std::string name;
  std::string introduction;
  std::vector<Field<Owner>> fields;
  bool or_null = false;
  bool repeats = false;
};

/// The table of a type; specialised in object_tables.hpp.
template <class Owner>
const ObjectTable<Owner>& table_of();

template <class Owner>
OrderedJson write_object(const ObjectTable<Owner>& table, const Owner& owner) {
  OrderedJson json = OrderedJson::object();
  auto& members = json.template get_ref<OrderedJson::object_t&>();
  members.reserve(table.fields.size());
  for (const Field<Owner>& field : table.fields) {
    if (std::optional<OrderedJson> value = field.write(owner))
      members.emplace_back(field.text.key, *std::move(value));
  }
  return json;
}

template <class Owner>
Owner read_object(const ObjectTable<Owner>& table, const OrderedJsonKeys& keys) {
  Owner owner{};
  for (const Field<Owner>& field : table.fields) {
    if (field.read) field.read(owner, keys);
  }
  return owner;
}

/// Adds the table and those below it, each once.
template <class Owner>
void collect(const ObjectTable<Owner>& table, std::vector<ObjectText>& objects) {
  const auto known = [&](const ObjectText& each) { return each.name == table.name; };
  if (std::any_of(objects.begin(), objects.end(), known)) return;
  ObjectText text{table.name, table.introduction, table.or_null, table.repeats};
  for (const Field<Owner>& field : table.fields) text.fields.push_back(field.text);
  objects.push_back(std::move(text));
  for (const Field<Owner>& field : table.fields) {
    if (field.text.nested) field.text.nested(objects);
  }
}

}  // namespace plumbline

// Values of the record's keys by their C++ type, and a key of a member.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "bench/record/tables/fields.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/units.hpp"

namespace plumbline {

enum class Presence {
  always,      // in every record, and known
  or_null,     // in every record; null: not known
  or_missing,  // null: not known; older records lack it
  newer,       // older records lack it: the member keeps its initial value
  left_out,    // left out at the member's initial value
};

/// Values that a reader accepts.
struct ValueRule {
  Presence presence = Presence::always;
  double min = 0;
  double max = OrderedJsonKeys::kInfinite;
  std::size_t most = OrderedJsonKeys::kAnyNumber;  // entries of a list
};
constexpr ValueRule kAnySign{Presence::always, -OrderedJsonKeys::kInfinite};
constexpr ValueRule kOrNull{Presence::or_null};
constexpr ValueRule kOrMissing{Presence::or_missing};
constexpr ValueRule kNewer{Presence::newer};
constexpr ValueRule kLeftOut{Presence::left_out};

/// null for NaN and infinity.
inline OrderedJson finite_or_null(double value) {
  return std::isfinite(value) ? OrderedJson(value) : OrderedJson(nullptr);
}

OrderedJson number_schema(const char* type, const ValueRule& rule);
OrderedJson list_schema(OrderedJson items);
OrderedJson object_schema(const std::string& name);

/// Values of a type: its schema, writer and reader. The general one is for objects with a table.
template <class T>
struct ValueOf {
  static OrderedJson schema(const ValueRule& /*rule*/) { return object_schema(table_of<T>().name); }
  static std::string object() { return table_of<T>().name; }
  static OrderedJson write(const T& value) { return write_object(table_of<T>(), value); }
  static T read(const OrderedJsonKeys& keys, const std::string& key, const ValueRule& /*rule*/) {
    return read_object(table_of<T>(), keys.object(key));
  }
  static void nested(std::vector<ObjectText>& objects) { collect(table_of<T>(), objects); }
};

template <class T>
requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) struct ValueOf<T> {
  static constexpr std::int64_t kMost = std::is_same_v<T, std::int64_t> ? std::int64_t{1} << 60
                                        : std::is_same_v<T, std::uint64_t>
                                            ? std::numeric_limits<std::int64_t>::max()
                                            : std::numeric_limits<T>::max();
  static OrderedJson schema(const ValueRule& rule) { return number_schema("integer", rule); }
  static OrderedJson write(T value) { return value; }
  static T read(const OrderedJsonKeys& keys, const std::string& key, const ValueRule& rule) {
    const std::int64_t most = rule.max < 0x1p62 ? static_cast<std::int64_t>(rule.max) : kMost;
    return static_cast<T>(keys.integer(key, static_cast<std::int64_t>(rule.min), std::min(most, kMost)));
  }
};

template <>
struct ValueOf<bool> {
  static OrderedJson schema(const ValueRule& /*rule*/) { return {{"type", "boolean"}}; }
  static OrderedJson write(bool value) { return value; }
  static bool read(const OrderedJsonKeys& keys, const std::string& key, const ValueRule& /*rule*/) {
    return keys.boolean(key);
  }
};

template <>
struct ValueOf<std::string> {
  static OrderedJson schema(const ValueRule& /*rule*/) { return {{"type", "string"}}; }
  static OrderedJson write(const std::string& value) { return value; }
  static std::string read(const OrderedJsonKeys& keys, const std::string& key, const ValueRule& /*rule*/) {
    return keys.string(key);
  }
};

template <>
struct ValueOf<double> {
  static OrderedJson schema(const ValueRule& rule) { return number_schema("number", rule); }
  static OrderedJson write(double value) { return finite_or_null(value); }
  static double read(const OrderedJsonKeys& keys, const std::string& key, const ValueRule& rule) {
    return rule.presence == Presence::or_null ? keys.number_or_null(key, rule.min, rule.max)
                                              : keys.number(key, rule.min, rule.max);
  }
};

template <>
struct ValueOf<Seconds> : ValueOf<double> {
  static OrderedJson write(Seconds value) { return finite_or_null(value.value); }
  static Seconds read(const OrderedJsonKeys& keys, const std::string& key, const ValueRule& rule) {
    return {ValueOf<double>::read(keys, key, rule)};
  }
};

template <>
struct ValueOf<Bytes> {
  static constexpr std::int64_t kMost = std::int64_t{1} << 60;
  static OrderedJson schema(const ValueRule& rule) { return number_schema("integer", rule); }
  static OrderedJson write(Bytes value) { return value.value; }
  static Bytes read(const OrderedJsonKeys& keys, const std::string& key, const ValueRule& rule) {
    const std::int64_t most = rule.max < 0x1p60 ? static_cast<std::int64_t>(rule.max) : kMost;
    return {keys.integer(key, static_cast<std::int64_t>(rule.min), most)};
  }
};

/// Nothing is written as null, unless it is left out.
template <class T>
struct ValueOf<std::optional<T>> : ValueOf<T> {
  static OrderedJson write(const std::optional<T>& value) {
    return value ? ValueOf<T>::write(*value) : OrderedJson(nullptr);
  }
  static std::optional<T> read(const OrderedJsonKeys& keys, const std::string& key, const ValueRule& rule) {
    if (keys.find(key) == nullptr) return std::nullopt;
    return ValueOf<T>::read(keys, key, rule);
  }
};

template <class T>
concept HoldsObject = requires {
  ValueOf<T>::object();
};

template <class T>
struct ValueOf<std::vector<T>> {
  static OrderedJson schema(ValueRule rule) {
    if constexpr (std::is_same_v<T, double>) rule.presence = Presence::or_null;
    return list_schema(ValueOf<T>::schema(rule));
  }
  static OrderedJson write(const std::vector<T>& values) {
    OrderedJson list = OrderedJson::array();
    for (const T& value : values) list.push_back(ValueOf<T>::write(value));
    return list;
  }
  static std::vector<T> read(const OrderedJsonKeys& keys, const std::string& key, const ValueRule& rule) {
    if constexpr (std::is_same_v<T, std::string>) {
      return keys.strings(key, rule.most);
    } else if constexpr (std::is_arithmetic_v<T>) {
      const std::vector<double> numbers = keys.numbers(key, rule.min, rule.max, rule.most);
      return {numbers.begin(), numbers.end()};
    } else {
      std::vector<T> values;
      for (const OrderedJsonKeys& row : keys.objects(key, rule.most))
        values.push_back(read_object(table_of<T>(), row));
      return values;
    }
  }
  static std::string object() requires HoldsObject<T> { return ValueOf<T>::object(); }
  static void nested(std::vector<ObjectText>& objects) requires HoldsObject<T> {
    ValueOf<T>::nested(objects);
  }
};

/// True for the initial value of a member.
template <class T>
bool is_initial(const T& value, const T& initial) {
  if constexpr (requires { value.has_value(); }) {
    return !value.has_value();
  } else if constexpr (requires { value.empty(); }) {
    return value.empty();
  } else if constexpr (requires { value == initial; }) {
    return value == initial;
  } else {
    return false;
  }
}

template <class Owner, class T>
Field<Owner> field(std::string key, T Owner::*member, std::string meaning, ValueRule rule = {}) {
  using Value = ValueOf<T>;
  const Presence presence = rule.presence;
  Field<Owner> made;
  made.text = {key, "", std::move(meaning), Value::schema(rule),
               presence == Presence::always || presence == Presence::or_null};
  if constexpr (HoldsObject<T>) {
    made.text.object = Value::object();
    made.text.nested = [](std::vector<ObjectText>& objects) { Value::nested(objects); };
  }
  made.write = [member, presence](const Owner& owner) -> std::optional<OrderedJson> {
    static const Owner kInitial{};
    if (presence == Presence::left_out && is_initial(owner.*member, kInitial.*member)) return std::nullopt;
    return Value::write(owner.*member);
  };
  made.read = [key = std::move(key), member, rule](Owner& owner, const OrderedJsonKeys& keys) {
    const bool optional = rule.presence != Presence::always && rule.presence != Presence::or_null;
    if (optional && keys.find(key) == nullptr) {
      if constexpr (std::is_same_v<T, double> || std::is_same_v<T, Seconds>) {
        if (rule.presence == Presence::or_missing) owner.*member = {std::numeric_limits<double>::quiet_NaN()};
      }
      return;
    }
    owner.*member = Value::read(keys, key, rule);
  };
  return made;
}

/// A key with an object of another table than that of its type.
template <class Owner, class T>
Field<Owner> field_in(std::string key, T Owner::*member, std::string meaning, const ObjectTable<T>& table) {
  Field<Owner> made;
  made.text = {key, table.name, std::move(meaning), object_schema(table.name)};
  made.text.nested = [&table](std::vector<ObjectText>& objects) { collect(table, objects); };
  made.write = [member, &table](const Owner& owner) { return write_object(table, owner.*member); };
  made.read = [key = std::move(key), member, &table](Owner& owner, const OrderedJsonKeys& keys) {
    owner.*member = read_object(table, keys.object(key));
  };
  return made;
}

/// The object at `place` of an array, by its name. Records may leave it out if writers do.
template <class Array>
Field<Array> element_field(std::string_view name, std::size_t place, std::string meaning) {
  using Value = ValueOf<typename Array::value_type>;
  Field<Array> made;
  made.text = {std::string(name), Value::object(), std::move(meaning), Value::schema({})};
  made.text.nested = [](std::vector<ObjectText>& objects) { Value::nested(objects); };
  made.write = [place](const Array& array) { return Value::write(array[place]); };
  made.read = [key = std::string(name), place](Array& array, const OrderedJsonKeys& keys) {
    if (keys.find(key) != nullptr) array[place] = Value::read(keys, key, {});
  };
  return made;
}

}  // namespace plumbline

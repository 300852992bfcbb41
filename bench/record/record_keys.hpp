// One JSON object of a record, read as if hostile.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "bench/record/record.hpp"
#include "core/base/error.hpp"

namespace plumbline {

/// One JSON object of a file that nobody has checked.
class Keys {
 public:
  Keys(const OrderedJson& object, std::string origin) : object_(object), origin_(std::move(origin)) {
    if (!object.is_object()) throw InputError(origin_ + ": expected a JSON object");
  }
  const OrderedJson* find(const char* key) const {
    const auto at = object_.find(key);
    return at == object_.end() || at->is_null() ? nullptr : &*at;
  }
  const OrderedJson& get(const char* key) const {
    const OrderedJson* value = find(key);
    if (value == nullptr) fail(key, "is missing");
    return *value;
  }
  Keys object(const char* key) const { return {get(key), origin_ + ": " + key}; }
  std::int64_t whole(const char* key, std::int64_t max) const {
    const OrderedJson& value = get(key);
    const bool in_range = value.is_number_unsigned()
                              ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(max)
                              : value.is_number_integer() && value.get<std::int64_t>() >= 0;
    if (!in_range) fail(key, fmt::format("expected a whole number from 0 to {}", max));
    return value.get<std::int64_t>();
  }
  double real(const char* key) const {
    const OrderedJson& value = get(key);
    const double found = value.is_number() ? value.get<double>() : NAN;
    if (!std::isfinite(found)) fail(key, "expected a number");
    return found;
  }
  double at_least_0(const char* key) const {
    const double found = real(key);
    if (found < 0) fail(key, "expected a number that is not negative");
    return found;
  }
  /// NaN for null.
  double at_least_0_or_unknown(const char* key) const {
    const auto at = object_.find(key);
    return at != object_.end() && at->is_null() ? NAN : at_least_0(key);
  }
  bool boolean(const char* key) const {
    const OrderedJson& value = get(key);
    if (!value.is_boolean()) fail(key, "expected true or false");
    return value.get<bool>();
  }
  std::string text(const char* key) const {
    const OrderedJson& value = get(key);
    if (!value.is_string()) fail(key, "expected a text");
    return value.get<std::string>();
  }
  std::vector<std::pair<std::string, std::string>> texts(const char* key) const {
    std::vector<std::pair<std::string, std::string>> pairs;
    for (const auto& [name, value] : object(key).object_.items()) {
      if (value.is_structured()) fail(key, "expected plain values");
      pairs.emplace_back(name, value.is_string() ? value.get<std::string>() : value.dump());
    }
    return pairs;
  }
  [[noreturn]] void fail(const char* key, const std::string& what) const {
    throw InputError(fmt::format("{}: {}: {}", origin_, key, what));
  }
  const std::string& origin() const { return origin_; }

 private:
  const OrderedJson& object_;
  std::string origin_;
};

}  // namespace plumbline

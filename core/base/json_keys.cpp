#include "core/base/json_keys.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "core/base/error.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {

Json parse_json_object(std::string_view text, const std::string& origin, int max_depth) {
  const auto shallow = [&](int depth, Json::parse_event_t /*event*/, Json& /*value*/) {
    if (depth > max_depth) {
      throw InputError(fmt::format("{}: JSON nested deeper than the {} levels that are expected at most",
                                   origin, max_depth));
    }
    return true;
  };
  try {
    Json object = Json::parse(text, shallow);
    if (object.is_object()) return object;
  } catch (const Json::exception& error) {
    throw InputError(fmt::format("{}: not valid JSON: {}", origin, printable(error.what(), 200)));
  }
  throw InputError(fmt::format("{}: expected a JSON object", origin));
}

void JsonKeys::fail(const std::string& key, const std::string& what) const {
  throw InputError(fmt::format("{}: {}: {}", origin_, key, what));
}

const Json* JsonKeys::find(const std::string& key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::int64_t JsonKeys::integer(const std::string& key, std::int64_t max) const {
  const Json* value = find(key);
  if (value == nullptr) fail(key, fmt::format("missing; expected a whole number from 1 to {}", max));
  const bool too_large =
      value->is_number_unsigned() && value->get<std::uint64_t>() > static_cast<std::uint64_t>(max);
  if (!value->is_number_integer() || too_large || value->get<std::int64_t>() < 1) {
    fail(key, fmt::format("found {}, expected a whole number from 1 to {}", shown(*value), max));
  }
  return value->get<std::int64_t>();
}

std::int64_t JsonKeys::integer_or(const std::string& key, std::int64_t max, std::int64_t otherwise) const {
  return find(key) == nullptr ? otherwise : integer(key, max);
}

double JsonKeys::number_or(const std::string& key, double min, double max, double otherwise) const {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  const double number = value->is_number() ? value->get<double>() : NAN;
  if (!(number >= min && number <= max)) {
    fail(key, fmt::format("found {}, expected a number from {} to {}", shown(*value), min, max));
  }
  return number;
}

bool JsonKeys::boolean_or(const std::string& key, bool otherwise) const {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) fail(key, fmt::format("found {}, expected true or false", shown(*value)));
  return value->get<bool>();
}

std::string JsonKeys::string_or(const std::string& key, const std::string& otherwise) const {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_string()) fail(key, fmt::format("found {}, expected a text", shown(*value)));
  return value->get<std::string>();
}

void JsonKeys::must_be(const std::string& key, bool supported, bool otherwise) const {
  if (boolean_or(key, otherwise) != supported) {
    fail(key, fmt::format("found {}, supported is {} only", !supported, supported));
  }
}

void JsonKeys::must_be_one_of(const std::string& key, const std::vector<std::string>& supported) const {
  const std::string found = string_or(key, supported.front());
  for (const std::string& name : supported) {
    if (found == name) return;
  }
  fail(key, fmt::format("found \"{}\", supported: {}", printable(found), fmt::join(supported, ", ")));
}

std::string JsonKeys::shown(const Json& value) {
  return printable(value.dump(-1, ' ', true, Json::error_handler_t::replace));
}

}  // namespace plumbline

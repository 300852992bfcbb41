// Typed access to the keys of a JSON object that nobody has checked: every complaint names file, key, what
// was found and what was expected.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

using Json = nlohmann::json;

/// A JSON object from text. Throws InputError when it is not valid JSON, not an object, or nested deeper than
/// `max_depth`; `origin` stands for the file in messages.
Json parse_json_object(std::string_view text, const std::string& origin, int max_depth = 32);

/// A view of one JSON object, which must outlive it. A null value counts as missing.
class JsonKeys {
 public:
  JsonKeys(const Json& object, std::string origin) : object_(object), origin_(std::move(origin)) {}

  [[noreturn]] void fail(const std::string& key, const std::string& what) const;
  /// The value, or nullptr when the key is missing or null.
  const Json* find(const std::string& key) const;
  /// A whole number from 1 to `max`. Throws InputError when missing or anything else.
  std::int64_t integer(const std::string& key, std::int64_t max) const;
  std::int64_t integer_or(const std::string& key, std::int64_t max, std::int64_t otherwise) const;
  double number_or(const std::string& key, double min, double max, double otherwise) const;
  bool boolean_or(const std::string& key, bool otherwise) const;
  std::string string_or(const std::string& key, const std::string& otherwise) const;
  /// Refuses a switch (`otherwise` when missing) in any position but the supported one.
  void must_be(const std::string& key, bool supported, bool otherwise) const;
  /// Refuses a text (the first of `supported` when missing) that is not supported.
  void must_be_one_of(const std::string& key, const std::vector<std::string>& supported) const;
  const std::string& origin() const { return origin_; }

  /// A value as it can stand in a message: one line, ASCII, not long.
  static std::string shown(const Json& value);

 private:
  const Json& object_;
  std::string origin_;
};

}  // namespace plumbline

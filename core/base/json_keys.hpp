// Typed access to unchecked JSON. Every error is one line with the file, the path of the key, found and
// expected: `config.json: rope_scaling.factor: found "8", expected a number from 1 to 16`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plumbline {

using Json = nlohmann::json;
/// Keeps its keys as they were written; finding one takes time in proportion to their number.
using OrderedJson = nlohmann::ordered_json;

/// Limit on the values of a JSON text: a value takes tens of bytes of memory, however short it is in the
/// text.
inline constexpr std::int64_t kMaxJsonValues = std::int64_t{1} << 23;

/// A JSON object from text. Throws InputError when it is not valid JSON, no object, nested deeper than
/// `max_depth`, of more than `max_values` values, or has a key twice; `origin` names the file in messages.
/// The reader of the text bounds its size (read_text_file). Value: Json or OrderedJson.
template <class Value = Json>
Value parse_json_object(std::string_view text, const std::string& origin, int max_depth = 32,
                        std::int64_t max_values = kMaxJsonValues);

/// The text with Infinity and NaN, which Python writes outside of JSON, as 1e308 and "?" in as many bytes.
std::string without_python_numbers(std::string_view text);

/// Meaning of a null: a missing key, or a mistake.
enum class JsonNull { missing, refused };

/// A view of one JSON object, which must outlive it. All errors are InputError.
template <class Value>
class BasicJsonKeys {
 public:
  static constexpr std::size_t kAnyNumber = std::numeric_limits<std::size_t>::max();
  static constexpr double kInfinite = std::numeric_limits<double>::infinity();

  /// Throws when it is no object. `path` leads to it from the top of the file: "machines.x".
  BasicJsonKeys(const Value& object, std::string origin, JsonNull null = JsonNull::missing,
                std::string path = "");

  /// "origin: path.key: what"; an empty key means the object itself.
  [[noreturn]] void fail(const std::string& key, const std::string& what) const;
  /// "origin: path.key: found …, expected …", or "missing; expected …".
  [[noreturn]] void refuse(const std::string& key, const std::string& expected) const;
  /// Throws for a key that none of the functions below was asked for.
  void refuse_unknown() const;
  /// True if one of them was.
  bool asked_for(const std::string& key) const;

  /// The value, or nullptr when the key is missing (or null, unless that is refused).
  const Value* find(const std::string& key) const;

  /// A whole number. Without `min`: from 1.
  std::int64_t integer(const std::string& key, std::int64_t min, std::int64_t max) const;
  std::int64_t integer(const std::string& key, std::int64_t max) const { return integer(key, 1, max); }
  std::int64_t integer_or(const std::string& key, std::int64_t max, std::int64_t otherwise) const;
  std::int64_t integer_or(const std::string& key, std::int64_t min, std::int64_t max,
                          std::int64_t otherwise) const;
  double number(const std::string& key, double min = -kInfinite, double max = kInfinite) const;
  double number_or(const std::string& key, double min, double max, double otherwise) const;
  /// NaN for null; the key must be there.
  double number_or_null(const std::string& key, double min, double max = kInfinite) const;
  bool boolean(const std::string& key) const;
  bool boolean_or(const std::string& key, bool otherwise) const;
  std::string string(const std::string& key) const;
  std::string string_or(const std::string& key, const std::string& otherwise) const;
  /// Refuses a switch (`otherwise` when missing) in any position but the supported one.
  void must_be(const std::string& key, bool supported, bool otherwise) const;
  /// Refuses a text (the first of `supported` when missing) that is not supported.
  void must_be_one_of(const std::string& key, const std::vector<std::string>& supported) const;

  BasicJsonKeys object(const std::string& key) const;
  /// The list, of `most` entries at most.
  const Value& list(const std::string& key, std::size_t most = kAnyNumber) const;
  std::vector<double> numbers(const std::string& key, double min, double max,
                              std::size_t most = kAnyNumber) const;
  std::vector<std::string> strings(const std::string& key, std::size_t most = kAnyNumber) const;
  /// A list of objects.
  std::vector<BasicJsonKeys> objects(const std::string& key, std::size_t most = kAnyNumber) const;
  /// An object of objects, with their names.
  std::vector<std::pair<std::string, BasicJsonKeys>> members(const std::string& key) const;
  /// Every key of the object with its plain value as text, in the order of Value.
  std::vector<std::pair<std::string, std::string>> texts(const std::string& key) const;

  const std::string& origin() const { return origin_; }
  /// "origin: path.key", for messages of others.
  std::string place(const std::string& key) const;

  /// The value as a whole number or a number in range; nothing when it is none.
  static std::optional<std::int64_t> integer_in(const Value& value, std::int64_t min, std::int64_t max);
  static std::optional<double> number_in(const Value& value, double min, double max);
  /// A value for a message: one line, ASCII, not long.
  static std::string shown(const Value& value);

 private:
  const Value& get(const std::string& key, const std::string& expected) const;
  std::string path_of(const std::string& key) const;

  const Value* object_;
  std::string origin_;
  JsonNull null_;
  std::string path_;
  mutable std::vector<const Value*> asked_;
};

using JsonKeys = BasicJsonKeys<Json>;
using OrderedJsonKeys = BasicJsonKeys<OrderedJson>;

}  // namespace plumbline

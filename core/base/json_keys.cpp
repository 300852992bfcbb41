#include "core/base/json_keys.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <type_traits>

#include "core/base/error.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kLongestKey = 200;
constexpr std::int64_t kMostOrderedKeys = 10'000;

std::string range_text(double min, double max) {
  if (!std::isinf(max)) return fmt::format("a number from {} to {}", min, max);
  if (std::isinf(min)) return "a number";
  return min == 0 ? "a number that is not negative" : fmt::format("a number of at least {}", min);
}

std::string list_text(std::size_t most, const char* of) {
  return most == JsonKeys::kAnyNumber ? fmt::format("a list{}", of)
                                      : fmt::format("a list{}, {} at most", of, most);
}

/// Place and first byte of the fault that `error` is about; the library's own words are of no use to readers.
std::string fault_of(std::string_view text, const nlohmann::detail::exception& error) {
  const auto* syntax = dynamic_cast<const nlohmann::detail::parse_error*>(&error);
  if (syntax == nullptr) return "found a number beyond the range of doubles";  // it has no place
  const std::size_t at = std::min(std::max<std::size_t>(syntax->byte, 1) - 1, text.size());
  const std::string_view before = text.substr(0, at);
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1: 0
  return fmt::format("found {} at line {}, column {}",
                     at == text.size() ? "the end" : fmt::format("'{}'", printable(text.substr(at, 1))),
                     std::ranges::count(before, '\n') + 1, at - line_start + 1);
}

std::string entry_of(const std::string& key, std::size_t index) {
  return fmt::format("{}[{}]", key, index);
}

/// Throws InputError with the path of the first key that an object holds twice.
[[noreturn]] void refuse_repeated_key(std::string_view text, const std::string& origin) {
  struct Level {
    std::set<std::string> keys;
    std::string last;
  };
  std::vector<Level> levels;
  const auto look = [&](int depth, Json::parse_event_t event, Json& value) {
    if (event != Json::parse_event_t::object_start && event != Json::parse_event_t::key) return true;
    levels.resize(static_cast<std::size_t>(depth));  // of a key: with that of its object
    if (event != Json::parse_event_t::key) return true;
    Level& level = levels.back();
    level.last = value.get<std::string>();
    if (level.keys.insert(level.last).second) return true;
    std::string path;
    for (const Level& each : levels)
      if (!each.last.empty()) path += (path.empty() ? "" : ".") + printable(each.last, kLongestKey);
    throw InputError(fmt::format("{}: {}: found twice, expected once; remove one", origin, path));
  };
  [[maybe_unused]] const Json read = Json::parse(text, look);
  throw InputError(fmt::format("{}: found a key twice, expected once; remove one", origin));
}

}  // namespace

std::string without_python_numbers(std::string_view text) {
  constexpr std::pair<std::string_view, std::string_view> kNumbers[] = {{"Infinity", "1e308   "},
                                                                        {"NaN", "\"?\""}};
  std::string plain(text);
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') quoted = !quoted;
    if (quoted && text[i] == '\\') ++i;
    if (quoted) continue;
    for (const auto& [number, replaced] : kNumbers)
      if (text.substr(i).starts_with(number)) plain.replace(i, number.size(), replaced);
  }
  return plain;
}

template <class Value>
Value parse_json_object(std::string_view text, const std::string& origin, int max_depth,
                        std::int64_t max_values) {
  std::int64_t events = 0;  // two of an object or a list, one of a key or anything else
  std::vector<std::int64_t> keys(static_cast<std::size_t>(max_depth) +
                                 2);  // of the open object of each level
  const auto bounded = [&](int depth, typename Value::parse_event_t event, Value& value) {
    if (depth > max_depth) {
      throw InputError(fmt::format("{}: JSON nested deeper than the {} levels that are expected at most",
                                   origin, max_depth));
    }
    const auto level = static_cast<std::size_t>(depth);
    if (event == Value::parse_event_t::object_start) keys[level + 1] = 0;
    // One that keeps its order compares every key with all before it.
    constexpr bool kOrdered = std::is_same_v<Value, OrderedJson>;
    if (event == Value::parse_event_t::key) ++keys[level];
    if (kOrdered && keys[level] > kMostOrderedKeys) {
      throw InputError(fmt::format("{}: JSON object of more than the {} keys that are expected at most",
                                   origin, kMostOrderedKeys));
    }
    if (++events > 2 * max_values) {
      throw InputError(
          fmt::format("{}: JSON of more than the {} values that are expected at most", origin, max_values));
    }
    // A key that is given twice is one member.
    if (event == Value::parse_event_t::object_end &&
        keys[level + 1] != static_cast<std::int64_t>(value.size()))
      refuse_repeated_key(text, origin);
    return true;
  };
  try {
    Value object = Value::parse(text, bounded);
    if (object.is_object()) return object;
  } catch (const typename Value::exception& error) {
    throw InputError(fmt::format("{}: not valid JSON: {}; correct it", origin, fault_of(text, error)));
  }
  throw InputError(fmt::format("{}: expected a JSON object", origin));
}

template <class Value>
BasicJsonKeys<Value>::BasicJsonKeys(const Value& object, std::string origin, JsonNull null, std::string path)
    : object_(&object), origin_(std::move(origin)), null_(null), path_(std::move(path)) {
  if (!object.is_object()) fail("", fmt::format("found {}, expected a JSON object", shown(object)));
}

template <class Value>
std::string BasicJsonKeys<Value>::path_of(const std::string& key) const {
  return path_ + (path_.empty() || key.empty() ? "" : ".") + printable(key, kLongestKey);
}

template <class Value>
std::string BasicJsonKeys<Value>::place(const std::string& key) const {
  const std::string path = path_of(key);
  return path.empty() ? origin_ : origin_ + ": " + path;
}

template <class Value>
void BasicJsonKeys<Value>::fail(const std::string& key, const std::string& what) const {
  throw InputError(fmt::format("{}: {}", place(key), what));
}

template <class Value>
void BasicJsonKeys<Value>::refuse(const std::string& key, const std::string& expected) const {
  if (key.empty()) fail(key, fmt::format("found {}, expected {}", shown(*object_), expected));
  const auto found = object_->find(key);
  const bool missing = found == object_->end() || (null_ == JsonNull::missing && found->is_null());
  fail(key, missing ? fmt::format("missing; expected {}", expected)
                    : fmt::format("found {}, expected {}", shown(*found), expected));
}

template <class Value>
void BasicJsonKeys<Value>::refuse_unknown() const {
  for (auto member = object_->begin(); member != object_->end(); ++member) {
    if (std::find(asked_.begin(), asked_.end(), &*member) == asked_.end())
      throw InputError(fmt::format("{}: unknown key {}", origin_, path_of(member.key())));
  }
}

template <class Value>
bool BasicJsonKeys<Value>::asked_for(const std::string& key) const {
  const auto found = object_->find(key);
  return found != object_->end() && std::find(asked_.begin(), asked_.end(), &*found) != asked_.end();
}

template <class Value>
const Value* BasicJsonKeys<Value>::find(const std::string& key) const {
  const auto found = object_->find(key);
  if (found == object_->end()) return nullptr;
  asked_.push_back(&*found);
  return found->is_null() && null_ == JsonNull::missing ? nullptr : &*found;
}

template <class Value>
const Value& BasicJsonKeys<Value>::get(const std::string& key, const std::string& expected) const {
  const Value* value = find(key);
  if (value == nullptr) refuse(key, expected);
  return *value;
}

template <class Value>
std::optional<std::int64_t> BasicJsonKeys<Value>::integer_in(const Value& value, std::int64_t min,
                                                             std::int64_t max) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() &&
      value.template get<std::uint64_t>() > static_cast<std::uint64_t>(std::max<std::int64_t>(max, 0)))
    return std::nullopt;
  const auto number = value.template get<std::int64_t>();
  return number >= min && number <= max ? std::optional(number) : std::nullopt;
}

template <class Value>
std::optional<double> BasicJsonKeys<Value>::number_in(const Value& value, double min, double max) {
  const double number = value.is_number() ? value.template get<double>() : NAN;
  return number >= min && number <= max ? std::optional(number) : std::nullopt;
}

template <class Value>
std::int64_t BasicJsonKeys<Value>::integer(const std::string& key, std::int64_t min, std::int64_t max) const {
  const Value* value = find(key);
  const std::optional<std::int64_t> number = value == nullptr ? std::nullopt : integer_in(*value, min, max);
  if (!number) refuse(key, fmt::format("a whole number from {} to {}", min, max));
  return *number;
}

template <class Value>
std::int64_t BasicJsonKeys<Value>::integer_or(const std::string& key, std::int64_t min, std::int64_t max,
                                              std::int64_t otherwise) const {
  return find(key) == nullptr ? otherwise : integer(key, min, max);
}

template <class Value>
std::int64_t BasicJsonKeys<Value>::integer_or(const std::string& key, std::int64_t max,
                                              std::int64_t otherwise) const {
  return integer_or(key, 1, max, otherwise);
}

template <class Value>
double BasicJsonKeys<Value>::number(const std::string& key, double min, double max) const {
  const Value* value = find(key);
  const std::optional<double> number = value == nullptr ? std::nullopt : number_in(*value, min, max);
  if (!number) refuse(key, range_text(min, max));
  return *number;
}

template <class Value>
double BasicJsonKeys<Value>::number_or(const std::string& key, double min, double max,
                                       double otherwise) const {
  return find(key) == nullptr ? otherwise : number(key, min, max);
}

template <class Value>
double BasicJsonKeys<Value>::number_or_null(const std::string& key, double min, double max) const {
  const auto found = object_->find(key);
  return found != object_->end() && found->is_null() ? NAN : number(key, min, max);
}

template <class Value>
bool BasicJsonKeys<Value>::boolean(const std::string& key) const {
  const Value& value = get(key, "true or false");
  if (!value.is_boolean()) refuse(key, "true or false");
  return value.template get<bool>();
}

template <class Value>
bool BasicJsonKeys<Value>::boolean_or(const std::string& key, bool otherwise) const {
  return find(key) == nullptr ? otherwise : boolean(key);
}

template <class Value>
std::string BasicJsonKeys<Value>::string(const std::string& key) const {
  const Value& value = get(key, "a text");
  if (!value.is_string()) refuse(key, "a text");
  return value.template get<std::string>();
}

template <class Value>
std::string BasicJsonKeys<Value>::string_or(const std::string& key, const std::string& otherwise) const {
  return find(key) == nullptr ? otherwise : string(key);
}

template <class Value>
void BasicJsonKeys<Value>::must_be(const std::string& key, bool supported, bool otherwise) const {
  if (boolean_or(key, otherwise) != supported) {
    fail(key, fmt::format("found {}, supported is {} only", !supported, supported));
  }
}

template <class Value>
void BasicJsonKeys<Value>::must_be_one_of(const std::string& key,
                                          const std::vector<std::string>& supported) const {
  const std::string found = string_or(key, supported.front());
  if (std::find(supported.begin(), supported.end(), found) != supported.end()) return;
  fail(key, fmt::format("found \"{}\", supported: {}", printable(found), fmt::join(supported, ", ")));
}

template <class Value>
BasicJsonKeys<Value> BasicJsonKeys<Value>::object(const std::string& key) const {
  return {get(key, "a JSON object"), origin_, null_, path_of(key)};
}

template <class Value>
const Value& BasicJsonKeys<Value>::list(const std::string& key, std::size_t most) const {
  const Value& value = get(key, list_text(most, ""));
  if (!value.is_array() || value.size() > most) refuse(key, list_text(most, ""));
  return value;
}

template <class Value>
std::vector<double> BasicJsonKeys<Value>::numbers(const std::string& key, double min, double max,
                                                  std::size_t most) const {
  std::vector<double> numbers;
  for (const Value& entry : list(key, most)) {
    const std::optional<double> number = number_in(entry, min, max);
    if (!number) {
      fail(entry_of(key, numbers.size()),
           fmt::format("found {}, expected {}", shown(entry), range_text(min, max)));
    }
    numbers.push_back(*number);
  }
  return numbers;
}

template <class Value>
std::vector<std::string> BasicJsonKeys<Value>::strings(const std::string& key, std::size_t most) const {
  std::vector<std::string> texts;
  for (const Value& entry : list(key, most)) {
    if (!entry.is_string())
      fail(entry_of(key, texts.size()), fmt::format("found {}, expected a text", shown(entry)));
    texts.push_back(entry.template get<std::string>());
  }
  return texts;
}

template <class Value>
std::vector<BasicJsonKeys<Value>> BasicJsonKeys<Value>::objects(const std::string& key,
                                                                std::size_t most) const {
  std::vector<BasicJsonKeys> objects;
  for (const Value& entry : list(key, most))
    objects.emplace_back(entry, origin_, null_, path_of(entry_of(key, objects.size())));
  return objects;
}

template <class Value>
std::vector<std::pair<std::string, BasicJsonKeys<Value>>> BasicJsonKeys<Value>::members(
    const std::string& key) const {
  const BasicJsonKeys parent = object(key);
  std::vector<std::pair<std::string, BasicJsonKeys>> members;
  for (auto member = parent.object_->begin(); member != parent.object_->end(); ++member) {
    members.emplace_back(member.key(), BasicJsonKeys(*member, origin_, null_, parent.path_of(member.key())));
  }
  return members;
}

template <class Value>
std::vector<std::pair<std::string, std::string>> BasicJsonKeys<Value>::texts(const std::string& key) const {
  const BasicJsonKeys parent = object(key);
  std::vector<std::pair<std::string, std::string>> texts;
  for (auto member = parent.object_->begin(); member != parent.object_->end(); ++member) {
    if (member->is_structured()) parent.refuse(member.key(), "a plain value");
    texts.emplace_back(member.key(),
                       member->is_string() ? member->template get<std::string>() : member->dump());
  }
  return texts;
}

template <class Value>
std::string BasicJsonKeys<Value>::shown(const Value& value) {
  return printable(value.dump(-1, ' ', true, Value::error_handler_t::replace));
}

template Json parse_json_object<Json>(std::string_view, const std::string&, int, std::int64_t);
template OrderedJson parse_json_object<OrderedJson>(std::string_view, const std::string&, int, std::int64_t);
template class BasicJsonKeys<Json>;
template class BasicJsonKeys<OrderedJson>;

}  // namespace plumbline

#include "core/launch_files/arguments/launch_arguments.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "core/base/error.hpp"
#include "core/base/one_line.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kLongestPlace = 300;
constexpr std::int64_t kLargestSize = (std::int64_t{1} << 31) - 1;  // products of two fit

bool says_true(const std::string& text) {
  return text == "true" || text == "True" || text == "1";
}
bool says_nothing(const std::string& text) {
  return text == "false" || text == "False" || text == "None" || text == "null" || text == "[]" ||
         text == "0" || text.empty();
}

template <class T>
std::optional<T> read_number(const std::string& text) {
  T number{};
  const char* const stop = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), stop, number);
  return error == std::errc() && end == stop ? std::optional<T>(number) : std::nullopt;
}

std::string option_of(std::string key) {
  std::replace(key.begin(), key.end(), '_', '-');
  return key;
}

/// "zero_stage, software" as a list.
std::vector<std::string> keys_of(const std::string& detail) {
  std::vector<std::string> keys;
  std::istringstream words(detail);
  for (std::string key; words >> key;) {
    if (key.ends_with(',')) key.pop_back();
    keys.push_back(key);
  }
  return keys;
}

bool is_count(const std::string& text) {
  const auto number = read_number<std::int64_t>(text);
  return number && *number > 0;
}

}  // namespace

LaunchArguments::LaunchArguments(const std::vector<LaunchArgument>& arguments, const ArgumentTable& table,
                                 LaunchFile& file)
    : file_(file) {
  std::map<std::string, const LaunchArgument*> last;
  for (const LaunchArgument& argument : arguments) last[argument.name] = &argument;
  for (const LaunchArgument& argument : arguments)
    if (last[argument.name] == &argument) attempt([&] { sort(argument, table); });
}

bool LaunchArguments::replaced(LaunchArgument& argument, const ArgumentRow& row) {
  const BesideFile& beside = file_.beside;
  if (row.fate == ArgumentFate::key) {
    const std::string key = row.detail.substr(0, row.detail.find('='));
    if (beside.gives(key) && key == row.detail) {
      argument.values = {beside.keys.at(key)};
      argument.known = true;
    } else if (!argument.known && !beside.gives(key)) {
      kept_[argument.name] = argument;  // it is given, though not known
      throw InputError(fmt::format(
          "{}: {}: found \"{}\", {}; expected one that the file sets itself; write it, or give --{}",
          printable(argument.place, kLongestPlace), argument.name,
          printable(fmt::format("{}", fmt::join(argument.values, " "))), argument.unknown_reason,
          option_of(key)));
    }
    return true;
  }
  if (row.fate == ArgumentFate::model) return !(beside.replaces_rules && beside.gives("model"));
  if (row.fate != ArgumentFate::rule || (argument.known && !beside.replaces_rules)) return true;
  const std::vector<std::string> keys = keys_of(row.detail);
  if (!std::all_of(keys.begin(), keys.end(), [&](const std::string& key) { return beside.gives(key); }))
    return true;
  const bool same_value = keys.size() == 1 && (!argument.known || is_count(beside.keys.at(keys.front())));
  if (!same_value) return false;
  argument.values = {beside.keys.at(keys.front())};
  argument.known = true;
  return true;
}

void LaunchArguments::sort(LaunchArgument argument, const ArgumentTable& table) {
  const ArgumentRow* const row = table.find(argument.name);
  const std::string place = printable(argument.place, kLongestPlace);
  if (file_.beside.ignores(argument.name)) {
    file_.without_effect.push_back({printable(argument.name, 100), place, kIgnored});
    return;
  }
  if (row == nullptr && argument.values == std::vector<std::string>{"None"}) {
    file_.without_effect.push_back({printable(argument.name, 100), place, "it is not given a value"});
    return;
  }
  if (row == nullptr) {
    file_.refused.push_back({printable(argument.name, 100), place,
                             ArgumentTable::unknown(file_.framework, table.nearest(argument.name))});
    return;
  }
  if (!replaced(argument, *row)) {
    file_.without_effect.push_back({argument.name, place, "the command line gives its keys"});
    return;
  }
  switch (row->fate) {
    case ArgumentFate::without_effect:
      file_.without_effect.push_back({argument.name, place, row->detail});
      return;
    case ArgumentFate::approximated: {
      const bool idle = argument.values.size() == 1 && says_nothing(argument.values.front());
      (idle ? file_.without_effect : file_.approximated).push_back({argument.name, place, row->detail});
      return;
    }
    case ArgumentFate::not_modelled: {
      const auto harmless = [&](const std::string& value) {
        return says_nothing(value) ||
               std::find(row->harmless.begin(), row->harmless.end(), value) != row->harmless.end();
      };
      if (!argument.values.empty() && std::all_of(argument.values.begin(), argument.values.end(), harmless)) {
        file_.without_effect.push_back({argument.name, place, "it is at a value that changes nothing"});
      } else {
        file_.refused.push_back({argument.name, place, fmt::format("not modelled: {}", row->detail)});
      }
      return;
    }
    case ArgumentFate::key: {
      kept_[argument.name] = argument;
      const std::size_t equals = row->detail.find('=');
      if (equals != std::string::npos) {
        const std::string key = row->detail.substr(0, equals);
        const std::string value = row->detail.substr(equals + 1);
        if (argument.values.empty() || says_true(argument.values.front())) {
          set(key, value, argument.name);
        } else if (value == "true" || value == "false") {
          set(key, value == "true" ? "false" : "true", argument.name);
        }
        return;
      }
      set(row->detail, text(argument.name, ""), argument.name);
      return;
    }
    case ArgumentFate::rule:
    case ArgumentFate::model:
      kept_[argument.name] = argument;
      return;
  }
}

const LaunchArgument* LaunchArguments::find(const std::string& name) const {
  const auto found = kept_.find(name);
  return found == kept_.end() ? nullptr : &found->second;
}

std::string LaunchArguments::text(const std::string& name, const std::string& otherwise) const {
  const LaunchArgument* const argument = find(name);
  if (argument == nullptr) return otherwise;
  if (!argument->known)
    refuse(name, "one that the file sets itself; write it, or give its variable with --set");
  if (argument->values.size() != 1) refuse(name, "one value");
  return argument->values.front();
}

std::int64_t LaunchArguments::integer(const std::string& name, std::int64_t otherwise) const {
  const LaunchArgument* const argument = find(name);
  if (argument == nullptr) return otherwise;
  const auto number = read_number<std::int64_t>(text(name, ""));
  if (!number || *number < 0 || *number > kLargestSize)
    refuse(name, fmt::format("a whole number from 0 to {}", kLargestSize));
  return *number;
}

double LaunchArguments::number(const std::string& name, double otherwise) const {
  const LaunchArgument* const argument = find(name);
  if (argument == nullptr) return otherwise;
  const auto number = read_number<double>(text(name, ""));
  if (!number) refuse(name, "a number");
  return *number;
}

bool LaunchArguments::on(const std::string& name) const {
  const LaunchArgument* const argument = find(name);
  if (argument == nullptr) return false;
  if (argument->values.empty()) return true;
  if (argument->values.size() == 1 && says_nothing(argument->values.front())) return false;
  if (argument->values.size() != 1 || !says_true(argument->values.front()))
    refuse(name, name.starts_with("--") ? "no value" : "true or false");
  return true;
}

std::string LaunchArguments::origin(const std::string& name) const {
  const LaunchArgument* const argument = find(name);
  if (argument == nullptr) return fmt::format("default of {}", file_.framework);
  return fmt::format("{}: {}", printable(argument->place, kLongestPlace), name);
}

void LaunchArguments::refuse(const std::string& name, const std::string& expected) const {
  const LaunchArgument* const argument = find(name);
  const std::string found =
      argument == nullptr || argument->values.empty()
          ? "nothing"
          : fmt::format("\"{}\"{}", printable(fmt::format("{}", fmt::join(argument->values, " "))),
                        argument->known ? "" : ", " + argument->unknown_reason);
  throw InputError(fmt::format("{}: found {}, expected {}", origin(name), found, expected));
}

void LaunchArguments::refuse_with(const std::string& name, const std::string& other,
                                  const std::string& expected) const {
  throw InputError(fmt::format("{}: found with {}, expected {}", origin(name), other, expected));
}

void LaunchArguments::not_modelled(const std::string& name, const std::string& reason) const {
  const LaunchArgument* const argument = find(name);
  file_.refused.push_back({name,
                           argument == nullptr ? origin(name) : printable(argument->place, kLongestPlace),
                           fmt::format("not modelled: {}", reason), argument == nullptr});
}

void LaunchArguments::approximated(const std::string& name, const std::string& reason) const {
  const LaunchArgument* const argument = find(name);
  file_.approximated.push_back(
      {name, argument == nullptr ? origin(name) : printable(argument->place, kLongestPlace), reason,
       argument == nullptr});
}

void LaunchArguments::without_effect(const std::string& name, const std::string& reason) const {
  file_.without_effect.push_back({name, printable(kept_.at(name).place, kLongestPlace), reason});
}

void LaunchArguments::set(const std::string& key, const std::string& value, const std::string& from) {
  const auto same = [&](const LaunchSetting& each) { return each.key == key; };
  std::erase_if(file_.settings, same);
  file_.settings.push_back({key, value, origin(from), !has(from)});
}

void LaunchArguments::derive(const std::string& key, const std::string& value, const std::string& origin) {
  file_.settings.push_back({key, value, origin, false});
}

void LaunchArguments::set_default(const std::string& key, const std::string& value) {
  if (!sets(key)) file_.settings.push_back({key, value, fmt::format("default of {}", file_.framework), true});
}

bool LaunchArguments::sets(const std::string& key) const {
  return std::any_of(file_.settings.begin(), file_.settings.end(),
                     [&](const LaunchSetting& each) { return each.key == key; });
}

std::string LaunchArguments::setting(const std::string& key, const std::string& otherwise) const {
  for (const LaunchSetting& each : file_.settings)
    if (each.key == key) return each.value;
  return otherwise;
}

}  // namespace plumbline

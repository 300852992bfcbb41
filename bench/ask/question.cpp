#include "bench/ask/question.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include "analysis/hardware/hardware.hpp"
#include "analysis/hardware/profiles/hardware_nicknames.hpp"
#include "bench/plan/packed_data.hpp"
#include "core/base/error.hpp"
#include "core/base/one_line.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/config_keys.hpp"
#include "core/config_text/load_config.hpp"

namespace plumbline {
namespace {

/// The value as a file would have it.
std::string text_of(const OrderedJson& value, const std::string& place, const std::string& key) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_null() && !value.is_array()) return value.dump();
  throw InputError(fmt::format("{}: {}: found {}, expected a value", place, printable(key),
                               value.is_null() ? "null" : "a list"));
}

/// The accelerator that a short name means, looked up once.
std::string full_name(const std::string& hardware, std::vector<std::string>& notes) {
  if (hardware.empty() || find_hardware_preset(hardware) != nullptr) return hardware;
  static std::mutex mutex;
  static std::map<std::string, std::string> known;
  constexpr std::size_t kMostNames = 256;
  const std::lock_guard lock(mutex);
  auto found = known.find(hardware);
  if (found == known.end()) {
    if (known.size() >= kMostNames) known.clear();
    found = known.emplace(hardware, hardware_nickname(hardware).preset).first;
  }
  if (found->second.empty()) return hardware;
  notes.push_back(fmt::format("hardware: {} stands for {}", printable(hardware), found->second));
  return found->second;
}

/// Without the name of a file that there is none of.
std::string without_origin(std::string_view text) {
  constexpr std::string_view kNoFile = "command line: ";
  return std::string(text.starts_with(kNoFile) ? text.substr(kNoFile.size()) : text);
}

void check_path(const std::string& source) {
  if (source.find('\0') != std::string::npos) throw InputError("config: found a NUL byte, expected a path");
}

bool is_key(const Override& each, std::string_view name) {
  const ConfigKey* key = find_config_key(each.key);
  return key != nullptr && key->name == name;
}

bool has_key(const Overrides& overrides, std::string_view name) {
  return std::ranges::any_of(overrides, [&](const Override& each) { return is_key(each, name); });
}

}  // namespace

Overrides overrides_of(const OrderedJson& keys, const std::string& place) {
  Overrides overrides;
  overrides.reserve(keys.size());
  for (const auto& [key, value] : keys.items()) overrides.push_back({key, text_of(value, place, key), place});
  return overrides;
}

AskedConfig asked_config(const OrderedJsonKeys& request) {
  AskedConfig asked;
  asked.source = request.string_or("config", "");
  if (const OrderedJson* keys = request.find("keys")) {
    if (!keys->is_object()) request.refuse("keys", "a JSON object");
    asked.keys = overrides_of(*keys, "keys");
  }
  return asked;
}

AskedConfig asked_config_with_lengths(const OrderedJsonKeys& request) {
  constexpr const char* kKey = "sequence_lengths";
  AskedConfig asked = asked_config(request);
  if (request.find(kKey) == nullptr) return asked;
  const OrderedJson& lengths = request.list(kKey);
  if (lengths.empty()) request.refuse(kKey, "the tokens of every document");
  asked.lengths.reserve(lengths.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const auto length = OrderedJsonKeys::integer_in(lengths[i], 1, std::numeric_limits<int>::max());
    if (!length) {
      throw InputError(fmt::format("{}[{}]: found {}, expected the tokens of a document, a whole number",
                                   kKey, i, OrderedJsonKeys::shown(lengths[i])));
    }
    asked.lengths.push_back(*length);
  }
  return asked;
}

AskedConfig with_changes(AskedConfig base, const Overrides& changes) {
  const bool world = has_key(changes, "world_size");
  const bool replicas = has_key(changes, "data_parallel_size");
  if (world != replicas) {
    const std::string_view replaced = world ? "data_parallel_size" : "world_size";
    std::erase_if(base.keys, [&](const Override& each) { return is_key(each, replaced); });
  }
  base.keys.insert(base.keys.end(), changes.begin(), changes.end());
  return base;
}

void check_readable(const AskedConfig& asked) {
  check_path(asked.source);
  check_readable(asked.source, asked.keys);
}

RunConfig config_of(const AskedConfig& asked, std::vector<std::string>& notes) {
  check_path(asked.source);
  std::string note;
  try {
    RunConfig config = load_run_config(asked.source, asked.keys, &note);
    if (!note.empty()) notes.push_back(note);
    config.machine.hardware = full_name(config.machine.hardware, notes);
    add_packed_work(config);
    if (!asked.lengths.empty() && !why_invalid(config))
      config.batch.packed = pack_documents(asked.lengths, "sequence_lengths", config).work.attention;
    return config;
  } catch (const InputError& error) {
    if (!asked.source.empty()) throw;
    throw InputError(without_origin(error.what()));
  }
}

}  // namespace plumbline

#include "bench/matrix/oom_matrix.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "core/base/error.hpp"
#include "core/base/text_input.hpp"
#include "core/config_text/config_file.hpp"
#include "core/config_text/config_keys.hpp"

namespace plumbline {
namespace {

[[noreturn]] void refuse(const ConfigFile& file, const YAML::Node& at, const std::string& what) {
  throw InputError(fmt::format("{}: {}", file.origin(at), what));
}

std::vector<std::string> values_of(const ConfigFile& file, const YAML::Node& key, const YAML::Node& value) {
  if (!value.IsSequence()) return {file.value(key, value).text};
  std::vector<std::string> values;
  for (const auto& item : value) {
    if (!item.IsScalar()) refuse(file, item, "published: cells: expected a value or a list of values");
    values.push_back(item.Scalar());
  }
  return values;
}

PublishedOutcome outcome_of(const ConfigFile& file, const YAML::Node& row) {
  if (!row.IsMap()) refuse(file, row, "published: cells: expected a mapping of keys, with status: ok or oom");
  PublishedOutcome outcome;
  bool has_status = false;
  for (const auto& entry : row) {
    if (!entry.first.IsScalar()) refuse(file, entry.first, "published: cells: expected the name of a key");
    if (entry.first.Scalar() == "status") {
      const std::string status = entry.second.IsScalar() ? entry.second.Scalar() : "";
      if (status != "ok" && status != "oom") {
        refuse(file, entry.second,
               fmt::format("status: found \"{}\", expected ok or oom", printable(status)));
      }
      outcome.status = status == "ok" ? Status::ok : Status::oom;
      has_status = true;
    } else {
      const ConfigKey& key = get_config_key(entry.first.Scalar(), file.origin(entry.first));
      outcome.where.emplace_back(key.name, values_of(file, entry.first, entry.second));
    }
  }
  if (!has_status) refuse(file, row, "published: cells: status: missing; expected ok or oom");
  return outcome;
}

Hypothesis hypothesis_of(const ConfigFile& file, const YAML::Node& row) {
  if (!row.IsMap() || !row["name"] || !row["name"].IsScalar()) {
    refuse(file, row, "hypotheses: expected a mapping with name: and the keys that it assumes");
  }
  Hypothesis hypothesis;
  hypothesis.name = printable(row["name"].Scalar(), 120);
  for (const auto& [key, value] : file.settings(row, {"name"})) {
    hypothesis.settings.push_back({key, value.text, value.origin});
  }
  return hypothesis;
}

/// A scalar under `key` of a mapping.
std::string text_of(const ConfigFile& file, const YAML::Node& row, const char* list, const char* key) {
  const YAML::Node value = row[key];
  if (!value || !value.IsScalar()) refuse(file, row, fmt::format("{}: expected a value for {}:", list, key));
  return printable(value.Scalar(), 300);
}

Bytes bytes_of(const ConfigFile& file, const YAML::Node& row, const char* list, const char* key) {
  const std::string text = text_of(file, row, list, key);
  try {
    return parse_bytes(text, fmt::format("{}: {}", list, key));
  } catch (const InputError& error) {
    refuse(file, row[key], error.what());
  }
}

DeviceShare share_of(const ConfigFile& file, const YAML::Node& row) {
  constexpr const char* kList = "device: taken";
  if (!row.IsMap()) refuse(file, row, "device: taken: expected mappings with name:, from:, to: and assumed:");
  DeviceShare share;
  share.name = text_of(file, row, kList, "name");
  if (row["source"]) share.source = text_of(file, row, kList, "source");
  share.from = bytes_of(file, row, kList, "from");
  share.to = bytes_of(file, row, kList, "to");
  share.assumed = bytes_of(file, row, kList, "assumed");
  if (share.from <= share.assumed && share.assumed <= share.to) return share;
  refuse(file, row,
         fmt::format("device: taken: found assumed {} bytes, expected between from and to, {} and {}",
                     share.assumed.value, share.from.value, share.to.value));
}

DeviceMemory device_of(const ConfigFile& file, const YAML::Node& node) {
  if (!node.IsMap() || !node["taken"] || !node["taken"].IsSequence()) {
    refuse(file, node, "device: expected memory:, source: and taken:, a list of mappings");
  }
  DeviceMemory device;
  device.memory = bytes_of(file, node, "device", "memory");
  device.source = text_of(file, node, "device", "source");
  for (const auto& row : node["taken"]) {
    device.taken.push_back(share_of(file, row));
    // One by one, so that no sum overflows.
    if (device.taken.back().to < device.memory && device.least().value > 0) continue;
    refuse(
        file, row,
        fmt::format("device: taken: found up to {} bytes, expected less in all than the {} bytes of memory",
                    device.taken.back().to.value, device.memory.value));
  }
  return device;
}

Assumption assumption_of(const ConfigFile& file, const YAML::Node& row) {
  constexpr const char* kList = "assumptions";
  if (!row.IsMap() || !row["without"] || !row["without"].IsMap()) {
    refuse(file, row, "assumptions: expected a mapping with name:, source: and without:, keys and values");
  }
  Assumption assumption;
  assumption.name = text_of(file, row, kList, "name");
  assumption.source = text_of(file, row, kList, "source");
  for (const auto& [key, value] : file.settings(row["without"], {})) {
    assumption.without.push_back({key, value.text, value.origin});
  }
  return assumption;
}

}  // namespace

std::optional<Status> OomMatrix::published_of(const MatrixCell& cell) const {
  const auto has = [&](const auto& condition) {
    const auto value = std::find_if(cell.values.begin(), cell.values.end(),
                                    [&](const auto& given) { return given.first == condition.first; });
    return value != cell.values.end() && std::find(condition.second.begin(), condition.second.end(),
                                                   value->second) != condition.second.end();
  };
  for (const PublishedOutcome& outcome : published) {
    if (std::all_of(outcome.where.begin(), outcome.where.end(), has)) return outcome.status;
  }
  return std::nullopt;
}

Bytes DeviceMemory::budget() const {
  Bytes left = memory;
  for (const DeviceShare& share : taken) left -= share.assumed;
  return left;
}

Bytes DeviceMemory::least() const {
  Bytes left = memory;
  for (const DeviceShare& share : taken) left -= share.to;
  return left;
}

Bytes DeviceMemory::most() const {
  Bytes left = memory;
  for (const DeviceShare& share : taken) left -= share.from;
  return left;
}

OomMatrix load_oom_matrix(const std::string& source) {
  const ConfigFile file(source);
  OomMatrix matrix;
  if (const YAML::Node published = file.root()["published"]) {
    if (!published.IsMap() || !published["source"] || !published["source"].IsScalar() ||
        !published["cells"] || !published["cells"].IsSequence()) {
      refuse(file, published, "published: expected source: and cells:, a list of mappings");
    }
    matrix.source = printable(published["source"].Scalar(), 300);
    for (const auto& row : published["cells"]) matrix.published.push_back(outcome_of(file, row));
    if (const YAML::Node device = published["device"]) matrix.device = device_of(file, device);
    if (const YAML::Node assumptions = published["assumptions"]) {
      if (!assumptions.IsSequence()) refuse(file, assumptions, "assumptions: expected a list of mappings");
      for (const auto& row : assumptions) matrix.assumptions.push_back(assumption_of(file, row));
    }
  }
  if (const YAML::Node hypotheses = file.root()["hypotheses"]) {
    if (!hypotheses.IsSequence()) refuse(file, hypotheses, "hypotheses: expected a list of mappings");
    for (const auto& row : hypotheses) matrix.hypotheses.push_back(hypothesis_of(file, row));
    if (matrix.published.empty()) {
      refuse(file, hypotheses, "hypotheses: found without published:, expected outcomes to explain");
    }
  }
  return matrix;
}

}  // namespace plumbline

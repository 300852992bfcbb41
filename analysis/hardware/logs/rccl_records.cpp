#include "analysis/hardware/logs/rccl_records.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "analysis/hardware/logs/log_lines.hpp"
#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/one_line.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kMostRecordRanks = 1 << 20;
constexpr double kMostRecordBytes = 0x1p50;
constexpr double kMostRecordMicroseconds = 1e11;
constexpr std::size_t kMostRecords = 1'000'000;
constexpr std::string_view kCsvStart = "collective";

/// One row, whatever it came from.
struct Record {
  std::string name;
  int ranks = 0, nodes = 0;
  bool in_place = false;
  double bytes = 0, microseconds = 0, algorithm = 0, bus = 0;
};

LogOperation operation_of(const std::string& name) {
  static const std::map<std::string, LogOperation, std::less<>> kNames = {
      {"AllReduce", LogOperation::all_reduce},
      {"AllGather", LogOperation::all_gather},
      {"ReduceScatter", LogOperation::reduce_scatter},
      {"AlltoAll", LogOperation::all_to_all},
      {"Broadcast", LogOperation::broadcast},
      {"Reduce", LogOperation::reduce},
      {"SendRecv", LogOperation::ring},
      {"Latency", LogOperation::message},
      {"Bandwidth", LogOperation::stream}};
  const auto found = kNames.find(name);
  return found == kNames.end() ? LogOperation::unknown : found->second;
}

/// Appends a row to the sweep that it continues, or begins one. Collectives that the models do not have are
/// left out.
void put(const Record& row, std::vector<LogSweep>& sweeps) {
  const LogOperation operation = operation_of(row.name);
  if (operation == LogOperation::unknown || !(row.bytes > 0) || !(row.microseconds > 0)) return;
  const auto same = [&](const LogSweep& sweep) {
    return sweep.operation == operation && sweep.in_place == row.in_place && sweep.ranks == row.ranks &&
           sweep.nodes == row.nodes;
  };
  auto sweep = std::find_if(sweeps.begin(), sweeps.end(), same);
  if (sweep == sweeps.end()) {
    sweeps.push_back({.tool = "rccl-tests", .operation = operation});
    sweep = sweeps.end() - 1;
    sweep->ranks = row.ranks;
    sweep->nodes = row.nodes;
    sweep->in_place = row.in_place;
  }
  sweep->points.push_back({row.bytes, row.microseconds * 1e-6});
  if (row.algorithm > 0) sweep->bus_factor = row.bus / row.algorithm;
}

Record record_of(const JsonKeys& keys) {
  Record row;
  row.name = keys.string("name");
  row.ranks = static_cast<int>(
      keys.integer_or(keys.find("ranks") != nullptr ? "ranks" : "gpus", kMostRecordRanks, 0));
  row.nodes = static_cast<int>(keys.integer_or("nodes", kMostRecordRanks, 0));
  row.in_place = keys.integer_or("inPlace", 0, 1, 0) == 1;
  row.bytes = keys.number("size", 0, kMostRecordBytes);
  row.microseconds = keys.number("time", 0, kMostRecordMicroseconds);
  row.algorithm = keys.number_or("algBw", 0, 1e9, 0);
  row.bus = keys.number_or("busBw", 0, 1e9, 0);
  return row;
}

std::vector<LogSweep> read_json(std::string_view text, const std::string& origin) {
  // An array, or objects one after another: both become the list of one object.
  std::string whole = "{\"rows\":";
  if (text[text.find_first_not_of(" \t\r\n")] == '[') {
    whole += text;
  } else {
    whole += '[';
    bool first = true;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      const std::string_view line = text.substr(begin, end - begin);
      begin = end + 1;
      if (line.find('{') == std::string_view::npos) continue;
      whole += first ? "" : ",";
      whole += line;
      first = false;
    }
    whole += ']';
  }
  whole += '}';
  const Json root = parse_json_object(whole, origin);
  const JsonKeys keys(root, origin);
  std::vector<LogSweep> sweeps;
  for (const JsonKeys& row : keys.objects("rows", kMostRecords)) put(record_of(row), sweeps);
  return sweeps;
}

std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells;
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = std::min(line.find(',', begin), line.size());
    std::string_view cell = line.substr(begin, end - begin);
    while (!cell.empty() && (cell.front() == ' ' || cell.front() == '"')) cell.remove_prefix(1);
    while (!cell.empty() && (cell.back() == ' ' || cell.back() == '"' || cell.back() == '\r'))
      cell.remove_suffix(1);
    cells.emplace_back(cell);
    begin = end + 1;
  }
  return cells;
}

std::vector<LogSweep> read_csv(std::string_view text, const std::string& origin) {
  std::vector<LogSweep> sweeps;
  std::vector<std::string> names;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::vector<std::string> cells = cells_of(text.substr(begin, end - begin));
    begin = end + 1;
    ++number;
    if (number > kMostRecords) {
      throw InputError(fmt::format("{}: found more, expected {} lines at most", origin, kMostRecords));
    }
    if (names.empty()) {
      names = cells;
      continue;
    }
    if (cells.size() == 1 && cells.front().empty()) continue;
    const auto cell = [&](std::string_view name) -> std::string {
      const auto at = std::find(names.begin(), names.end(), name) - names.begin();
      return at < static_cast<std::ptrdiff_t>(cells.size()) ? cells[static_cast<std::size_t>(at)] : "";
    };
    const auto figure = [&](std::string_view name, double most) {
      const std::string text_of = cell(name);
      if (text_of.empty()) return 0.0;
      const auto value = number_of(text_of);
      if (!value || *value > most) {
        throw InputError(fmt::format("{}:{}: {}: found {}, expected a number up to {:g}", origin, number,
                                     name, printable(text_of), most));
      }
      return *value;
    };
    Record row;
    row.name = cell("collective");
    row.ranks = static_cast<int>(figure(cell("ranks").empty() ? "gpus" : "ranks", kMostRecordRanks));
    const auto per_node = static_cast<int>(figure("rankspernode", kMostRecordRanks));
    if (per_node > 0) row.nodes = std::max(row.ranks / per_node, 1);
    row.in_place = cell("inplace") == "1";
    row.bytes = figure("size", kMostRecordBytes);
    row.microseconds = figure("time", kMostRecordMicroseconds);
    row.algorithm = figure("algbw", 1e9);
    row.bus = figure("busbw", 1e9);
    put(row, sweeps);
  }
  return sweeps;
}

}  // namespace

bool looks_like_records(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return false;
  const std::string_view start = text.substr(first);
  if (start.starts_with(kCsvStart)) return true;
  if (start.front() == '{') return true;
  return start.front() == '[' && start.find_first_not_of(" \t\r\n[") < start.find_first_of("0123456789,") &&
         start[start.find_first_not_of(" \t\r\n[")] == '{';
}

std::vector<LogSweep> read_records(std::string_view text, const std::string& origin) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  std::vector<LogSweep> sweeps = text.substr(first).starts_with(kCsvStart)
                                     ? read_csv(text.substr(first), origin)
                                     : read_json(text, origin);
  for (LogSweep& sweep : sweeps) {
    std::sort(sweep.points.begin(), sweep.points.end(),
              [](const LogPoint& a, const LogPoint& b) { return a.bytes < b.bytes; });
  }
  return sweeps;
}

}  // namespace plumbline

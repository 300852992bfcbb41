#include "bench/commands/operators/operator_rows.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bench/measure/machine/named_hardware.hpp"
#include "core/base/error.hpp"
#include "core/base/one_line.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kMostBytes = std::size_t{256} << 20;

std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells;
  while (true) {
    const std::size_t end = line.find(',');
    cells.emplace_back(line.substr(0, end));
    if (end == std::string_view::npos) return cells;
    line.remove_prefix(end + 1);
  }
}

/// Lines without their ends; empty ones left out.
struct TableLine {
  std::string_view text;
  int number;
};
std::vector<TableLine> lines_of(std::string_view text) {
  std::vector<TableLine> lines;
  int number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (!line.empty()) lines.push_back({line, number});
  }
  return lines;
}

/// Lookups by accelerator; tables are read once.
class Accelerators {
 public:
  silicon::OperatorLookup& named(const std::string& name) {
    const auto found = lookups_.find(name);
    if (found != lookups_.end()) return found->second;
    const HardwareProfile hardware = accelerator_named(name);
    const Accelerator& known = *hardware.accelerator();
    return lookups_.try_emplace(name, known.name, known.constants).first->second;
  }

 private:
  std::map<std::string, silicon::OperatorLookup> lookups_;
};

}  // namespace

ShapeTable read_shape_table(const std::string& path) {
  const std::string text = read_text_file(path, kMostBytes);
  if (text.starts_with("\x1f\x8b")) {
    throw InputError(
        fmt::format("{}: found a gzip file, expected CSV; unpack it with gunzip -k", printable(path)));
  }
  const std::vector<TableLine> lines = lines_of(text);
  if (lines.empty()) throw InputError(fmt::format("{}: found no line, expected a header", printable(path)));
  const std::vector<std::string> columns = cells_of(lines.front().text);
  ShapeTable table{std::string(lines.front().text), {}};
  for (std::size_t i = 1; i < lines.size(); ++i) {
    ShapeLine line{std::string(lines[i].text), fmt::format("{}:{}: ", printable(path), lines[i].number), {}};
    const std::vector<std::string> cells = cells_of(line.text);
    if (cells.size() != columns.size() || line.text.find('"') != std::string::npos) {
      throw InputError(fmt::format("{}found {} cells, expected {} without quotes", line.place, cells.size(),
                                   columns.size()));
    }
    for (std::size_t c = 0; c < cells.size(); ++c) line.words[columns[c]] = cells[c];
    table.lines.push_back(std::move(line));
  }
  return table;
}

std::string predicted_rows(const OperatorKind& kind, const OperatorRows& rows) {
  ShapeTable table = read_shape_table(rows.path);
  Accelerators accelerators;
  std::string out;
  for (ShapeLine& line : table.lines) {
    auto words = std::move(line.words);
    words.insert(rows.words.begin(), rows.words.end());
    const std::string accelerator = words.count("accelerator") != 0 ? words["accelerator"] : rows.hardware;
    if (accelerator.empty()) {
      throw InputError(fmt::format(
          "{}accelerator: found nothing, expected a column of this name or --hardware", line.place));
    }
    const OperatorResult result =
        kind.time(accelerators.named(accelerator), OperatorWords(std::move(words), line.place), rows.clock);
    if (out.empty()) {
      out = fmt::format("{},predicted_s", table.header);
      for (const auto& [name, time] : result.parts) out += fmt::format(",predicted_{}_s", name);
      out += ",basis\n";
    }
    out += fmt::format("{},{:.5g}", line.text, result.whole.seconds);
    for (const auto& [name, time] : result.parts) out += fmt::format(",{:.5g}", time.seconds);
    out += fmt::format(",{}\n", name_of(result.whole.basis));
  }
  return out.empty() ? fmt::format("{},predicted_s,basis\n", table.header) : out;
}

}  // namespace plumbline

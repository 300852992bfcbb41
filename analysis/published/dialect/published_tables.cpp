#include "analysis/published/dialect/published_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "analysis/hardware/embedded.hpp"
#include "core/base/error.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{16} << 20;
constexpr std::size_t kMaxColumns = 200;
constexpr std::size_t kMaxRows = 100'000;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

/// The cell that begins with a double quote; `at` moves behind its comma, or to npos at the end of the line.
std::string quoted_cell(std::string_view line, std::size_t& at, const std::string& place) {
  std::string cell;
  while (++at < line.size()) {
    if (line[at] == '"' && (at + 1 == line.size() || line[at + 1] != '"')) break;
    if (line[at] == '"') ++at;
    cell += line[at];
  }
  if (at >= line.size()) {
    throw InputError(fmt::format("{}: a cell begins with \" and does not end, expected another \"", place));
  }
  const std::size_t comma = line.find(',', at);
  if (!trimmed(line.substr(at + 1, comma == std::string_view::npos ? comma : comma - at - 1)).empty()) {
    throw InputError(fmt::format("{}: text after a cell in double quotes, expected a comma", place));
  }
  at = comma == std::string_view::npos ? comma : comma + 1;
  return cell;
}

std::vector<std::string> cells_of(std::string_view line, const std::string& place) {
  std::vector<std::string> cells;
  std::size_t begin = 0;
  while (begin != std::string_view::npos) {
    std::size_t first = begin;
    while (first < line.size() && line[first] == ' ') ++first;
    if (first < line.size() && line[first] == '"') {
      cells.push_back(quoted_cell(line, first, place));
      begin = first;
      continue;
    }
    const std::size_t end = line.find(',', begin);
    cells.emplace_back(trimmed(line.substr(begin, end == std::string_view::npos ? end : end - begin)));
    begin = end == std::string_view::npos ? end : end + 1;
  }
  return cells;
}

std::string whole_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || !file.is_open()) throw InputError(fmt::format("{}: cannot be read", path.string()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

/// The program's own header for a table of this name; an empty one if there is none.
TableHeader built_in_header(const std::string& table) {
  const std::string name = table + ".yaml";
  const std::string_view text = embedded_text(analysis_files(), name);
  return text.empty() ? TableHeader{} : parse_header(std::string(text), name);
}

}  // namespace

PublishedTable parse_published(const std::string& text, const std::string& name, const std::string& origin) {
  if (text.size() > kMaxBytes) {
    throw InputError(fmt::format("{}: {} bytes, expected at most {}", origin, text.size(), kMaxBytes));
  }
  PublishedTable table;
  table.name = name;
  std::size_t line_number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    const std::string_view line(text.data() + begin, end - begin);
    begin = end + 1;
    ++line_number;
    if (line.empty() || line == "\r") continue;
    std::vector<std::string> cells = cells_of(line, fmt::format("{}:{}", origin, line_number));
    if (table.columns.empty()) {
      if (cells.size() > kMaxColumns) {
        throw InputError(
            fmt::format("{}:1: {} columns, expected at most {}", origin, cells.size(), kMaxColumns));
      }
      table.columns = std::move(cells);
      continue;
    }
    if (cells.size() > table.columns.size()) {
      throw InputError(fmt::format("{}:{}: {} cells, expected at most {} as in the first line", origin,
                                   line_number, cells.size(), table.columns.size()));
    }
    cells.resize(table.columns.size());
    if (table.rows.size() == kMaxRows) {
      throw InputError(fmt::format("{0}: found more than {1} rows, expected at most {1}; split the table",
                                   origin, kMaxRows));
    }
    table.rows.push_back(std::move(cells));
  }
  if (table.columns.empty())
    throw InputError(fmt::format("{}: empty, expected a line of column names", origin));
  return table;
}

std::vector<PublishedTable> built_in_tables() {
  std::vector<PublishedTable> tables;
  constexpr std::string_view kEnding = ".csv";
  for (const EmbeddedFile& file : analysis_files()) {
    if (!file.name.ends_with(kEnding)) continue;
    const std::string stem(file.name.substr(0, file.name.size() - kEnding.size()));
    tables.push_back(parse_published(std::string(file.text), stem, std::string(file.name)));
    tables.back().header = built_in_header(stem);
  }
  return tables;
}

std::vector<PublishedTable> read_tables(const std::string& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> paths;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == ".csv" && entry->is_regular_file(error)) paths.push_back(entry->path());
  }
  if (error) {
    throw InputError(fmt::format("{}: cannot be read ({}), expected a folder of .csv tables",
                                 printable(folder), error.message()));
  }
  if (paths.empty()) {
    throw InputError(
        fmt::format("{}: holds no .csv file, expected tables as in results/published", printable(folder)));
  }
  std::sort(paths.begin(), paths.end());
  std::vector<PublishedTable> tables;
  for (const auto& path : paths) {
    tables.push_back(parse_published(whole_file(path), path.stem().string(), path.string()));
    tables.back().folder = folder;
    const std::filesystem::path header = std::filesystem::path(path).replace_extension(".yaml");
    tables.back().header = std::filesystem::exists(header, error)
                               ? parse_header(whole_file(header), header.string())
                               : built_in_header(tables.back().name);
  }
  return tables;
}

}  // namespace plumbline

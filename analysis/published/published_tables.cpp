#include "analysis/published/published_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "analysis/hardware/embedded.hpp"
#include "core/base/error.hpp"
#include "core/base/text_input.hpp"

namespace plumbline::cluster {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{16} << 20;
constexpr std::size_t kMaxColumns = 200;
constexpr std::size_t kMaxRows = 100'000;

std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells;
  std::size_t begin = 0;
  for (;;) {
    const std::size_t end = line.find(',', begin);
    std::string_view cell = line.substr(begin, end == std::string_view::npos ? end : end - begin);
    while (!cell.empty() && cell.front() == ' ') cell.remove_prefix(1);
    while (!cell.empty() && (cell.back() == ' ' || cell.back() == '\r')) cell.remove_suffix(1);
    cells.emplace_back(cell);
    if (end == std::string_view::npos) return cells;
    begin = end + 1;
  }
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
    std::vector<std::string> cells = cells_of(line);
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
      throw InputError(fmt::format("{}: more than {} rows", origin, kMaxRows));
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
    std::ifstream file(path, std::ios::binary);
    std::string text(kMaxBytes + 1, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (file.bad() || !file.is_open()) throw InputError(fmt::format("{}: cannot be read", path.string()));
    text.resize(static_cast<std::size_t>(file.gcount()));
    tables.push_back(parse_published(text, path.stem().string(), path.string()));
  }
  return tables;
}

}  // namespace plumbline::cluster

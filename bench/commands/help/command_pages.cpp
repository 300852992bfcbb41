#include "bench/commands/help/command_pages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "bench/commands/help/help_files.hpp"

namespace plumbline {
namespace {

constexpr std::string_view kTitle = "# plumbline";

/// The entry of this name of one of the lists alongside the pages.
const Described& entry_of(const std::vector<Described>& list, std::string_view name, std::string_view what) {
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const Described& each) { return each.name == name; });
  if (found == list.end()) throw std::logic_error(fmt::format("the manual has no {} {}", what, name));
  return *found;
}

const std::vector<Described>& described_files() {
  static const std::vector<Described> kFiles = read_described(embedded_text(help_files(), "files.md"));
  return kFiles;
}

const std::vector<Described>& described_exit_codes() {
  static const std::vector<Described> kCodes = read_described(embedded_text(help_files(), "exit_codes.md"));
  return kCodes;
}

ExitCode exit_code_of(const std::string& number) {
  entry_of(described_exit_codes(), number, "exit code");
  return static_cast<ExitCode>(std::stoi(number));
}

/// "a, b, c".
std::vector<std::string> listed(std::string_view line) {
  std::vector<std::string> words;
  while (!line.empty()) {
    const std::size_t end = std::min(line.find(", "), line.size());
    words.emplace_back(line.substr(0, end));
    line.remove_prefix(std::min(end + 2, line.size()));
  }
  return words;
}

/// "- `plumbline run`: its purpose".
Example example_of(std::string_view line) {
  constexpr std::string_view kOpen = "- `";
  constexpr std::string_view kClose = "`: ";
  const std::size_t close = line.find(kClose);
  if (!line.starts_with(kOpen) || close == std::string_view::npos)
    throw std::logic_error(fmt::format("not an example of the manual: {}", line));
  return {std::string(line.substr(kOpen.size(), close - kOpen.size())),
          std::string(line.substr(close + kClose.size()))};
}

void add_line(CommandPage& page, std::string_view section, std::string_view line) {
  if (section == "Examples") {
    page.examples.push_back(example_of(line));
  } else if (section == "Files" && line.starts_with("- ")) {
    page.files.push_back(entry_of(described_files(), line.substr(2), "file"));
  } else if (section == "Exit codes") {
    for (const std::string& number : listed(line)) page.exit_codes.push_back(exit_code_of(number));
  } else if (section == "See also") {
    page.see_also = listed(line);
  } else {
    throw std::logic_error(fmt::format("a page of the manual, below \"{}\": {}", section, line));
  }
}

}  // namespace

CommandPage read_command_page(std::string_view markdown) {
  CommandPage page;
  const std::string_view title = take_line(markdown);
  if (!title.starts_with(kTitle))
    throw std::logic_error(fmt::format("a page of the manual begins with: {}", title));
  page.name = title.substr(std::min(kTitle.size() + 1, title.size()));
  std::string_view section;
  bool within = false;  // a paragraph that continues in the next line
  while (!markdown.empty()) {
    const std::string_view line = take_line(markdown);
    if (line.starts_with("## ")) {
      section = line.substr(3);
    } else if (!section.empty() && !line.empty()) {
      add_line(page, section, line);
    } else if (!line.empty() && within) {
      page.paragraphs.back() += fmt::format(" {}", line);
    } else if (!line.empty()) {
      page.paragraphs.emplace_back(line);
    }
    within = !line.empty();
  }
  return page;
}

const std::vector<CommandPage>& command_pages() {
  static const std::vector<CommandPage> kPages = [] {
    std::vector<CommandPage> pages;
    for (const EmbeddedFile& file : help_pages()) pages.push_back(read_command_page(file.text));
    return pages;
  }();
  return kPages;
}

const CommandPage* find_command_page(std::string_view name) {
  const auto& pages = command_pages();
  const auto found =
      std::find_if(pages.begin(), pages.end(), [name](const CommandPage& page) { return page.name == name; });
  return found == pages.end() ? nullptr : &*found;
}

std::string_view meaning_of(ExitCode code) {
  return entry_of(described_exit_codes(), std::to_string(static_cast<int>(code)), "exit code").meaning;
}

}  // namespace plumbline

#include "bench/commands/help/short_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "bench/commands/help/config_notes.hpp"
#include "bench/show/text/wrap.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kShortColumn = 30;  // where descriptions begin
constexpr std::size_t kMostExamples = 3;
constexpr std::string_view kEveryCommand = "Every command";  // page.cpp's group of shared options

/// Options of configuration keys that most plans have.
constexpr std::array<std::string_view, 12> kCommonKeys = {
    "--tp",  "--pp",  "--cp",         "--ep",       "--dp",         "--gpus",
    "--gbs", "--mbs", "--seq-length", "--hardware", "--zero-stage", "--precision"};

/// Up to the first semicolon, colon or full stop, or as far as `width` columns go.
std::string first_clause(std::string_view text, std::size_t width) {
  std::size_t end = text.size();
  for (const std::string_view stop : {"; ", ": ", ". ", " ("}) end = std::min(end, text.find(stop));
  text = text.substr(0, end);
  if (columns_of(text) <= width) return std::string(text);
  const std::size_t blank = text.substr(0, width > 3 ? width - 3 : 0).rfind(' ');
  return std::string(text.substr(0, blank == std::string_view::npos ? 0 : blank)) + " ...";
}

bool is_of_keys(const PageGroup& group) {
  const auto& notes = config_notes();
  return std::any_of(notes.begin(), notes.end(),
                     [&](const Described& note) { return note.section == group.title; });
}

bool has_option(const PageGroup& group, std::string_view name) {
  return std::any_of(group.options.begin(), group.options.end(), [&](const PageOption& option) {
    return std::find(option.names.begin(), option.names.end(), name) != option.names.end();
  });
}

class ShortLines {
 public:
  explicit ShortLines(const TextStyle& style) : style_(style) {}

  void heading(const std::string& text) {
    blank();
    plain(emphasized(text, style_));
  }
  void blank() { plain(""); }
  void plain(const std::string& line) {
    text_ += line + '\n';
    ++count_;
  }
  void wrapped_line(std::string_view words) {
    const std::string all = wrapped(words, style_.width, 2);
    text_ += all;
    count_ += static_cast<std::size_t>(std::count(all.begin(), all.end(), '\n'));
  }
  void entry(const std::string& name, std::string_view words) {
    const std::size_t used = columns_of(name) + 2;
    const std::size_t column = std::max(kShortColumn, used + 2);
    const std::size_t room = style_.width > column ? style_.width - column : 0;
    const std::string clause = first_clause(words, room);
    plain(clause.empty() || clause == " ..."
              ? "  " + emphasized(name, style_)
              : "  " + emphasized(name, style_) + std::string(column - used, ' ') + clause);
  }
  std::size_t room() const { return kShortPageLines - std::min(kShortPageLines, count_); }
  std::string take() { return std::move(text_); }

 private:
  TextStyle style_;
  std::string text_;
  std::size_t count_ = 0;
};

std::string shown_name(const PageOption& option) {
  // The shortest long name: --tp of --tensor-model-parallel-size.
  const std::string* name = &option.names.front();
  for (const std::string& each : option.names) {
    const bool better = each.starts_with("--") && (!name->starts_with("--") || each.size() < name->size());
    if (better) name = &each;
  }
  return option.value.empty() ? *name : *name + " " + option.value;
}

void write_keys(ShortLines& lines, const Page& page) {
  std::size_t keys = 0;
  std::string common;
  for (const PageGroup& group : page.groups) {
    if (is_of_keys(group)) keys += group.options.size();
  }
  if (keys == 0) return;
  for (const std::string_view name : kCommonKeys) {
    const bool there = std::any_of(page.groups.begin(), page.groups.end(),
                                   [&](const PageGroup& group) { return has_option(group, name); });
    if (there) common += fmt::format("{}{}", common.empty() ? "" : ", ", name);
  }
  lines.heading("CONFIGURATION KEYS");
  lines.wrapped_line(
      fmt::format("{} and {} more, see `plumbline help configuration`", common,
                  keys - static_cast<std::size_t>(std::count(common.begin(), common.end(), ',')) - 1));
}

}  // namespace

std::string short_page(const Page& page, const TextStyle& style) {
  ShortLines lines(style);
  lines.wrapped_line(page.name + " - " + page.summary);
  lines.wrapped_line("Usage: " + page.synopsis);
  if (!page.commands.empty()) lines.heading("COMMANDS");
  for (const PageCommand& command : page.commands) lines.entry(command.name, command.summary);
  bool any = false;
  for (const PageGroup& group : page.groups) {
    if (is_of_keys(group)) continue;
    if (!any) lines.heading("ARGUMENTS AND OPTIONS");
    any = true;
    if (group.title == kEveryCommand) {
      std::string names;
      for (const PageOption& option : group.options)
        names += (names.empty() ? "every command: " : ", ") + shown_name(option);
      lines.wrapped_line(names);
      continue;
    }
    for (const PageOption& option : group.options) lines.entry(shown_name(option), option.description);
  }
  write_keys(lines, page);
  const std::size_t footer = 2;
  if (page.prose != nullptr) {
    std::size_t shown = 0;
    for (const Example& example : page.prose->examples) {
      if (shown == kMostExamples || lines.room() < footer + 1 + (shown == 0 ? 2 : 0)) break;
      if (shown == 0) lines.heading("EXAMPLES");
      lines.plain("  " + example.command);
      ++shown;
    }
  }
  lines.blank();
  const std::string command =
      page.name.find(' ') == std::string::npos ? "" : page.name.substr(page.name.find(' '));
  lines.plain(fmt::format("plumbline{} --help-all: full descriptions, files and exit codes", command));
  return lines.take();
}

}  // namespace plumbline

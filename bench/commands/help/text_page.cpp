#include "bench/commands/help/text_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "bench/show/text/record_tables.hpp"
#include "bench/show/text/wrap.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kIndent = 2;
constexpr std::size_t kColumn = 28;  // where descriptions begin
constexpr std::size_t kWidest = 100;
constexpr std::size_t kNarrowest = 40;

class Writer {
 public:
  explicit Writer(const TextStyle& style) : style_(style) {
    style_.width = std::max(style.width, kNarrowest);
  }

  void heading(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    if (!text_.empty()) text_ += '\n';
    text_ += emphasized(text, style_) + '\n';
  }
  void paragraph(std::string_view text) { text_ += wrapped(text, style_.width, kIndent); }
  void blank() { text_ += '\n'; }

  /// A name and, from a column of their own on, words about it; a long name has a line for itself.
  void entry(const std::string& name, std::string_view words) {
    const std::size_t column = style_.width < 70 ? 6 : kColumn;
    std::string body = wrapped(words, style_.width, column);
    const std::string shown = std::string(kIndent, ' ') + emphasized(name, style_);
    const std::size_t used = kIndent + columns_of(name);
    if (used + 2 > column) {
      text_ += shown + '\n' + body;
    } else {
      text_ += shown + std::string(column - used, ' ') + body.substr(column);
    }
  }
  /// A line that a reader may copy, and its purpose.
  void example(std::string_view command, std::string_view what) {
    text_ += std::string(kIndent, ' ') + emphasized(std::string(command), style_) + '\n';
    text_ += wrapped(what, style_.width, kIndent + 4);
  }
  std::string take() { return std::move(text_); }

 private:
  TextStyle style_;
  std::string text_;
};

std::string names_of(const PageOption& option) {
  std::string names;
  for (const std::string& name : option.names) names += (names.empty() ? "" : ", ") + name;
  return option.value.empty() ? names : names + " " + option.value;
}

void write_prose(Writer& writer, const CommandPage& prose) {
  if (!prose.examples.empty()) writer.heading("Examples");
  for (const Example& example : prose.examples) writer.example(example.command, example.what);
  if (!prose.exit_codes.empty()) writer.heading("Exit codes");
  for (const ExitCode code : prose.exit_codes)
    writer.entry(fmt::format("{}", static_cast<int>(code)), meaning_of(code));
  if (!prose.files.empty()) writer.heading("Files");
  for (const Described& file : prose.files) writer.entry(file.name, file.meaning);
  writer.heading("See also");
  std::string list;
  for (const std::string& topic : prose.see_also)
    list += fmt::format("{}plumbline help {}", list.empty() ? "" : ", ", topic);
  writer.paragraph(list);
}

}  // namespace

TextStyle text_style_of_standard_output() {
  const TableStyle table = style_of_standard_output();
  const auto width = static_cast<std::size_t>(std::max(table.width, 0));
  return {width == 0 ? TextStyle{}.width : std::min(width, kWidest), table.color};
}

std::string emphasized(const std::string& text, const TextStyle& style) {
  return style.color ? "\033[1m" + text + "\033[0m" : text;
}

std::string text_page(const Page& page, const TextStyle& style) {
  Writer writer(style);
  writer.heading("Name");
  writer.paragraph(page.name + " - " + page.summary);
  writer.heading("Synopsis");
  writer.paragraph(page.synopsis);
  if (page.prose != nullptr && !page.prose->paragraphs.empty()) {
    writer.heading("Description");
    for (std::size_t i = 0; i < page.prose->paragraphs.size(); ++i) {
      if (i > 0) writer.blank();
      writer.paragraph(page.prose->paragraphs[i]);
    }
  }
  if (!page.commands.empty()) writer.heading("Commands");
  for (const PageCommand& command : page.commands) writer.entry(command.name, command.summary);
  for (const PageGroup& group : page.groups) {
    writer.heading(group.title);
    for (const PageOption& option : group.options)
      writer.entry(names_of(option), option.description + (option.required ? " (required)" : ""));
  }
  if (page.prose != nullptr) write_prose(writer, *page.prose);
  return writer.take();
}

}  // namespace plumbline

#include "bench/commands/help/man_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace plumbline {
namespace {

/// "plumbline run" is the page plumbline-run.
std::string page_name(std::string name) {
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

/// A tagged paragraph: the tag on a line of its own, the words below.
std::string tagged(const std::string& tag, std::string_view words) {
  return fmt::format(".TP\n{}\n{}\n", tag, troff_escaped(words));
}

std::string bold(std::string_view text) {
  return "\\fB" + troff_escaped(text) + "\\fR";
}

std::string tag_of(const PageOption& option) {
  std::string tag;
  for (const std::string& name : option.names) tag += (tag.empty() ? "" : ", ") + bold(name);
  return option.value.empty() ? tag : tag + " \\fI" + troff_escaped(option.value) + "\\fR";
}

std::string prose_of(const CommandPage& prose) {
  std::string text;
  if (!prose.examples.empty()) text += ".SH EXAMPLES\n";
  for (const Example& example : prose.examples)
    text += fmt::format(".TP\n{}\n{}.\n", bold(example.command), troff_escaped(example.what));
  if (!prose.exit_codes.empty()) text += ".SH EXIT STATUS\n";
  for (const ExitCode code : prose.exit_codes)
    text += tagged(bold(fmt::format("{}", static_cast<int>(code))), meaning_of(code));
  if (!prose.files.empty()) text += ".SH FILES\n";
  for (const Described& file : prose.files)
    text += tagged("\\fI" + troff_escaped(file.name) + "\\fR", file.meaning);
  text += ".SH SEE ALSO\n";
  for (std::size_t i = 0; i < prose.see_also.size(); ++i) {
    const bool topic = find_command_page(prose.see_also[i]) == nullptr;
    const std::string end = i + 1 < prose.see_also.size() ? "," : "";
    text += topic ? fmt::format("{}{}\n", bold(fmt::format("plumbline help {}", prose.see_also[i])), end)
                  : fmt::format(".BR plumbline\\-{} (1){}\n", troff_escaped(prose.see_also[i]), end);
  }
  return text;
}

}  // namespace

std::string troff_escaped(std::string_view text) {
  std::string escaped;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) escaped += "\\&";
    line_begins = c == '\n';
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string man_page(const Page& page, const std::string& version) {
  std::string text = fmt::format(".TH {} 1 \"\" \"plumbline {}\" \"plumbline manual\"\n",
                                 troff_escaped(upper(page_name(page.name))), version);
  text +=
      fmt::format(".SH NAME\n{} \\- {}\n", troff_escaped(page_name(page.name)), troff_escaped(page.summary));
  text += fmt::format(".SH SYNOPSIS\n{}\n", bold(page.synopsis));
  if (page.prose != nullptr && !page.prose->paragraphs.empty()) {
    text += ".SH DESCRIPTION\n";
    for (const std::string_view paragraph : page.prose->paragraphs)
      text += fmt::format(".PP\n{}\n", troff_escaped(paragraph));
  }
  if (!page.commands.empty()) text += ".SH COMMANDS\n";
  for (const PageCommand& command : page.commands) text += tagged(bold(command.name), command.summary);
  for (const PageGroup& group : page.groups) {
    text += fmt::format(".SH {}\n", upper(group.title));
    for (const PageOption& option : group.options)
      text += tagged(tag_of(option), option.description + (option.required ? " (required)" : ""));
  }
  if (page.prose != nullptr) text += prose_of(*page.prose);
  return text;
}

}  // namespace plumbline

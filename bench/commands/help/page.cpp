#include "bench/commands/help/page.hpp"

#include <algorithm>
#include <cctype>

namespace plumbline {
namespace {

constexpr const char* kArguments = "Arguments";
constexpr const char* kShared = "Every command";
constexpr std::size_t kLongestChoices = 48;

/// "FILE"; "text|csv"; CLI11's own names of types become words.
std::string value_name(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return "";
  const std::vector<std::string> choices = choices_of(option);
  if (!choices.empty()) {
    std::string joined;
    for (const std::string& choice : choices) joined += (joined.empty() ? "" : "|") + choice;
    return joined.size() <= kLongestChoices ? joined : "NAME";
  }
  std::string name = option.get_type_name();
  name = name.substr(0, name.find(':'));
  if (name == "INT" || name == "UINT" || name == "FLOAT") return "N";
  return name.empty() || name == "TEXT" ? "TEXT" : name;
}

PageOption option_of(const CLI::Option& option) {
  PageOption result;
  if (option.get_positional()) {
    const std::string type = option.get_type_name();
    result.names = {type == "TEXT" || type.empty() ? upper(option.get_name(true)) : value_name(option)};
  } else {
    for (const std::string& name : option.get_snames()) result.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) result.names.push_back("--" + name);
    result.value = value_name(option);
  }
  result.description = option.get_description();
  const std::vector<std::string> choices = choices_of(option);
  if (result.value == "NAME" && !choices.empty()) {
    std::string list;
    for (const std::string& choice : choices) list += (list.empty() ? ": " : ", ") + choice;
    if (result.description.find(choices.front()) == std::string::npos) result.description += list;
  }
  if (!option.get_default_str().empty()) result.description += " (default: " + option.get_default_str() + ")";
  result.required = option.get_required();
  return result;
}

std::string synopsis_of(const CLI::App& app, const std::string& name) {
  std::string line = name;
  bool more = false;
  for (const CLI::Option* option : app.get_options()) {
    if (hidden(*option)) continue;
    const PageOption shown = option_of(*option);
    if (option->get_positional()) {
      const std::string many = option->get_items_expected_max() > 1 ? "..." : "";
      line += shown.required ? " " + shown.names[0] + many : " [" + shown.names[0] + many + "]";
    } else if (shown.required) {
      line += " " + shown.names.back() + " " + shown.value;
    } else {
      more = true;
    }
  }
  return more ? line + " [OPTIONS]" : line;
}

void add(std::vector<PageGroup>& groups, const std::string& title, PageOption option) {
  const auto found = std::find_if(groups.begin(), groups.end(),
                                  [&](const PageGroup& group) { return group.title == title; });
  if (found != groups.end()) {
    found->options.push_back(std::move(option));
  } else {
    groups.push_back({title, {std::move(option)}});
  }
}

void add_options(const CLI::App& app, std::vector<PageGroup>& groups, std::vector<PageGroup>& shared) {
  for (const CLI::Option* option : app.get_options()) {
    if (hidden(*option)) continue;
    if (option == app.get_help_ptr() || option == app.get_help_all_ptr()) {
      add(shared, kShared, option_of(*option));
    } else {
      add(groups, option->get_positional() ? kArguments : option->get_group(), option_of(*option));
    }
  }
}

}  // namespace

bool hidden(const CLI::Option& option) {
  return option.get_group().empty();
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t open = type.find(":{");
  const std::size_t close = type.rfind('}');
  std::vector<std::string> choices;
  if (open == std::string::npos || close == std::string::npos) return choices;
  std::size_t from = open + 2;
  while (from <= close) {
    const std::size_t to = std::min(type.find(',', from), close);
    choices.push_back(type.substr(from, to - from));
    from = to + 1;
  }
  return choices;
}

Page page_of(const CLI::App& app) {
  Page page;
  const CLI::App* parent = app.get_parent();
  page.name = parent == nullptr ? app.get_name() : parent->get_name() + " " + app.get_name();
  page.summary = app.get_description();
  page.prose = find_command_page(parent == nullptr ? "" : app.get_name());
  std::vector<PageGroup> shared;
  add_options(app, page.groups, shared);
  if (parent == nullptr) {
    page.synopsis = page.name + " COMMAND [OPTIONS]";
    for (const CLI::App* command :
         app.get_subcommands([](const CLI::App* each) { return !each->get_group().empty(); }))
      page.commands.push_back({command->get_name(), command->get_description()});
  } else {
    page.synopsis = synopsis_of(app, page.name);
    for (const CLI::Option* option : parent->get_options()) {
      const bool everywhere = option != parent->get_help_ptr() && option != parent->get_help_all_ptr() &&
                              option != parent->get_version_ptr();
      if (everywhere && !hidden(*option)) add(shared, kShared, option_of(*option));
    }
  }
  const auto arguments =
      std::stable_partition(page.groups.begin(), page.groups.end(),
                            [](const PageGroup& group) { return group.title == kArguments; });
  std::stable_partition(arguments, page.groups.end(),
                        [](const PageGroup& group) { return group.title == "Options"; });
  for (PageGroup& group : shared) page.groups.push_back(std::move(group));
  return page;
}

}  // namespace plumbline

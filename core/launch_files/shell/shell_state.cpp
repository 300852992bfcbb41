#include "core/launch_files/shell/shell_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace plumbline {
namespace {

/// Adds the keys of `b` that `a` lacks.
template <class Map>
void add_missing(Map& a, const Map& b, const typename Map::mapped_type& value) {
  for (const auto& [key, ignored] : b) a.emplace(key, value);
}

}  // namespace

bool ShellVariable::same_value(const ShellVariable& other) const {
  return array == other.array && is_set == other.is_set && readonly == other.readonly &&
         attributes == other.attributes && taint.empty() == other.taint.empty() &&
         (!taint.empty() || std::ranges::equal(items, other.items, {}, &ShellWord::text, &ShellWord::text));
}

const ShellVariable* ShellState::find(std::string_view name) const {
  const auto found = variables.find(name);
  if (found != variables.end()) return found->second.is_set ? &found->second : nullptr;
  const auto all = variables.find("");  // stands for the others
  return all_tainted.empty() || all == variables.end() ? nullptr : &all->second;
}

const std::string* ShellState::known_value(std::string_view name) const {
  const ShellVariable* const variable = find(name);
  const bool known = variable != nullptr && variable->taint.empty() && variable->items.size() == 1 &&
                     UnknownParts::known(variable->items.front().text);
  return known ? &variable->items.front().text : nullptr;
}

void ShellState::taint(const std::string& name, const std::string& reason) {
  ShellVariable& variable = variables[name];
  if (variable.order == 0) variable.order = static_cast<int>(variables.size());
  variable.is_set = true;
  if (variable.taint.empty()) variable.taint = reason;
}

void ShellState::taint_all(const std::string& reason) {
  all_tainted = reason;
  taint("", reason);
  for (auto& [name, variable] : variables)
    if (name != kShellArguments) taint(name, reason);
}

void ShellState::unset(const std::string& name) {
  const auto found = variables.find(name);
  if (found != variables.end() && found->second.readonly) return;
  variables[name] = {};
  variables[name].is_set = false;
}

bool same_values(const ShellState& a, const ShellState& b) {
  const auto same_variables = [](const auto& left, const auto& right) {
    return std::ranges::equal(left, right, [](const auto& one, const auto& other) {
      return one.first == other.first && one.second.same_value(other.second);
    });
  };
  return same_variables(a.variables, b.variables) && std::ranges::equal(a.locals, b.locals, same_variables) &&
         a.functions == b.functions && a.all_tainted.empty() == b.all_tainted.empty() &&
         a.unknown_commands.empty() == b.unknown_commands.empty() && a.doubt.empty() == b.doubt.empty() &&
         a.stops_at_failure == b.stops_at_failure;
}

ShellState merged(ShellState a, const ShellState& b, const std::string& name, int line,
                  const std::string& why) {
  if (a.doubt.empty()) a.doubt = b.doubt;
  if (a.unknown_commands.empty()) a.unknown_commands = b.unknown_commands;
  a.stops_at_failure = a.stops_at_failure && b.stops_at_failure;
  add_missing(a.functions, b.functions, {nullptr});
  for (auto& [function, bodies] : a.functions) {
    const auto other = b.functions.find(function);
    for (const ShellNodePtr& body : other == b.functions.end() ? ShellState::Bodies{nullptr} : other->second)
      if (std::ranges::find(bodies, body) == bodies.end()) bodies.push_back(body);
  }
  ShellVariable absent;
  absent.is_set = false;
  const auto reason = [&](int of) {
    return fmt::format("which line {} of {} may set, since {}", of, name, why);
  };
  const auto merge = [&](ShellVariable& one, const ShellVariable& other) {
    if (one.same_value(other)) return;
    int setter = 0;  // the later one
    for (const ShellVariable* const each : {&std::as_const(one), &other})
      if (!each->items.empty()) setter = std::max(setter, each->items.front().line);
    if (one.taint.empty())
      one.taint = !other.taint.empty() ? other.taint : reason(setter > 0 ? setter : line);
    one.is_set = true;
    one.readonly = one.readonly || other.readonly;
    one.attributes = one.attributes || other.attributes;
    one.order = std::max(one.order, other.order);
    one.items.insert(one.items.end(), other.items.begin(), other.items.end());
  };
  const auto of = [&](const ShellState& state, const std::string& key) {
    const ShellVariable* const found = state.find(key);
    return found == nullptr ? absent : *found;
  };
  ShellState before = a;
  if (a.all_tainted.empty()) a.all_tainted = b.all_tainted;
  add_missing(a.variables, b.variables, absent);
  for (auto& [key, variable] : a.variables) {
    variable = of(before, key);
    merge(variable, of(b, key));
  }
  for (std::size_t i = 0; i < a.locals.size() && i < b.locals.size(); ++i) {
    add_missing(a.locals[i], b.locals[i], absent);
    for (auto& [key, variable] : a.locals[i]) {
      const auto one = before.locals[i].find(key);
      const auto other = b.locals[i].find(key);
      if (one != before.locals[i].end() && other != b.locals[i].end()) {
        merge(variable, other->second);
      } else {
        variable.taint = reason(line);
        variable.is_set = true;
      }
    }
  }
  return a;
}

}  // namespace plumbline

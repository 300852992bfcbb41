#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/schedule/dependency_walk.hpp"
#include "core/schedule_text/schedule_cells.hpp"
#include "core/schedule_text/schedule_shape.hpp"
#include "core/schedule_text/schedule_text.hpp"

namespace plumbline {
namespace {

/// `vocab=two_barriers` and so on; a schedule without such passes has no such entry.
std::optional<VocabPasses> vocab_of(std::string_view word) {
  constexpr std::string_view kKey = "vocab=";
  if (!word.starts_with(kKey)) return std::nullopt;
  const std::optional<VocabPasses> passes = find_vocab_passes(word.substr(kKey.size()));
  return passes == VocabPasses::none ? std::nullopt : passes;
}

/// Parses a `# key=value` line.
void parse_attributes(std::string_view line, const std::string& origin, Schedule& schedule) {
  line.remove_prefix(1);
  while (!(line = trimmed(line)).empty()) {
    const std::string_view word = line.substr(0, line.find_first_of(" \t"));
    line.remove_prefix(word.size());
    if (word == "barrier_at_end=false") {
      schedule.barrier_at_end = false;
    } else if (word == "joint_teacher=true") {
      schedule.joint_teacher = true;
    } else if (const auto passes = vocab_of(word)) {
      schedule.vocab = *passes;
    } else {
      malformed_cell(
          origin, word,
          "expected barrier_at_end=false, joint_teacher=true or vocab=two_barriers|one_barrier|interlaced");
    }
  }
}

/// The first cell of a row, and its length up to the comma; quotes around it are taken off, as Python's csv
/// reader does.
std::string_view first_cell(std::string_view row, std::size_t& length) {
  length = std::min(row.find(','), row.size());
  const std::size_t begin = row.find_first_not_of(" \t");
  if (begin != std::string_view::npos && row[begin] == '"') {
    const std::size_t close = row.find('"', begin + 1);
    const std::size_t comma = close == std::string_view::npos ? close : row.find(',', close);
    const std::size_t end = std::min(comma, row.size());
    if (close != std::string_view::npos && trimmed(row.substr(close + 1, end - close - 1)).empty()) {
      length = end;
      return trimmed(row.substr(begin + 1, close - begin - 1));
    }
  }
  return trimmed(row.substr(0, length));
}

/// Adds PyTorch's waits to one rank's cells.
std::string with_send_waits(const std::vector<Action>& actions) {
  std::string text;
  std::vector<Action> pending;
  const auto separate = [&] {
    if (!text.empty()) text += ',';
  };
  const auto wait = [&](const Action& send) {
    separate();
    fmt::format_to(std::back_inserter(text), "{}WAIT_{}{}", send.stage, name_of(send.type), send.microbatch);
  };
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i];
    if (is_send(action.type)) {
      const auto same = [&](const Action& send) {
        return send.stage == action.stage && send.type == action.type;
      };
      const auto before = std::find_if(pending.begin(), pending.end(), same);
      if (before != pending.end()) {
        wait(*before);
        pending.erase(before);
      }
      pending.push_back(action);
    }
    separate();
    const std::size_t count = action.overlaps_next && i + 1 < actions.size() ? 2 : 1;
    append_cells({actions.begin() + static_cast<std::ptrdiff_t>(i),
                  actions.begin() + static_cast<std::ptrdiff_t>(i + count)},
                 ',', text);
    i += count - 1;
  }
  for (const Action& send : pending) wait(send);
  return text;
}

}  // namespace

std::string to_csv(const Schedule& schedule, CsvOptions options) {
  std::string text;
  std::string attributes;
  if (!schedule.barrier_at_end) attributes += " barrier_at_end=false";
  if (schedule.joint_teacher) attributes += " joint_teacher=true";
  if (schedule.vocab != VocabPasses::none) attributes += fmt::format(" vocab={}", name_of(schedule.vocab));
  if (!attributes.empty()) text = "#" + attributes + "\n";
  for (const auto& actions : schedule.actions) {
    if (options.send_waits) {
      text += with_send_waits(actions);
    } else {
      append_cells(actions, ',', text);
    }
    text += '\n';
  }
  return text;
}

Schedule parse_schedule_csv(std::string_view text, const std::string& origin) {
  Schedule schedule;
  schedule.name = printable(origin, kLongestScheduleName);
  std::vector<std::vector<std::uint32_t>> columns;  // of every action, for messages
  std::size_t row = 0;
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  while (!text.empty()) {
    ++row;
    const std::size_t newline = std::min(text.find('\n'), text.size());
    std::string_view line = trimmed(text.substr(0, newline));
    text.remove_prefix(std::min(newline + 1, text.size()));
    if (!line.empty() && line.front() == '#') {
      parse_attributes(line, fmt::format("{}: row {}, column 1", origin, row), schedule);
      continue;
    }
    if (line.empty()) {
      if (trimmed(text).empty()) break;
      throw InputError(fmt::format("{}: row {}, column 1: empty, expected the cells of a rank", origin, row));
    }
    if (schedule.actions.size() == static_cast<std::size_t>(kMaxRanks)) {
      throw InputError(fmt::format("{}: row {}, column 1: more than {} ranks", origin, row, kMaxRanks));
    }
    std::vector<Action>& actions = schedule.actions.emplace_back();
    std::vector<std::uint32_t>& places = columns.emplace_back();
    for (std::uint32_t column = 1;; ++column) {
      std::size_t comma = 0;
      const std::string_view cell = first_cell(line, comma);
      if (!cell.empty()) {
        Action parsed[2];
        int count = 0;
        try {
          count = parse_cell(cell, parsed, "");
        } catch (const InputError& error) {
          throw InputError(fmt::format("{}: row {}, column {}{}", origin, row, column, error.what()));
        }
        actions.insert(actions.end(), parsed, parsed + count);
        places.insert(places.end(), static_cast<std::size_t>(count), column);
      }
      if (comma == line.size()) break;
      line.remove_prefix(comma + 1);
    }
    if (actions.empty()) {
      throw InputError(
          fmt::format("{}: row {}, column 1: no action at all, expected those of a rank", origin, row));
    }
  }
  infer_shape(schedule, columns, origin);
  check_ranges(schedule);
  return schedule;
}

}  // namespace plumbline

#include "core/schedule_text/schedule_cells.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "core/base/error.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

constexpr std::string_view kOverlap = "OVERLAP_F_B";

/// Cells of PyTorch's lowered form that do not affect the order of work here.
bool is_skipped(std::string_view type) {
  static constexpr std::array<std::string_view, 6> kNames = {
      "UNSHARD", "RESHARD", "REDUCE_GRAD", "WAIT_SEND_F", "WAIT_SEND_B", "WAIT_REDUCE_GRAD"};
  return std::find(kNames.begin(), kNames.end(), type) != kNames.end();
}

std::optional<ActionType> type_of(std::string_view name) {
  for (int i = 0; i < kActionTypes; ++i) {
    if (name_of(static_cast<ActionType>(i)) == name) return static_cast<ActionType>(i);
  }
  return std::nullopt;
}

constexpr const char* kExpected = "expected <stage><TYPE><micro-batch> such as 3F0";

/// `<stage><TYPE><micro-batch>`; nothing for cells that are skipped.
std::optional<Action> parse_action(std::string_view cell, const std::string& where) {
  const char* const end = cell.data() + cell.size();
  std::uint32_t stage = 0;
  const auto stage_end = std::from_chars(cell.data(), end, stage);
  if (stage_end.ec != std::errc() || stage >= std::uint32_t{kMaxStages}) {
    malformed_cell(where, cell,
                   stage_end.ec == std::errc::invalid_argument
                       ? kExpected
                       : fmt::format("stage too large, expected less than {}", kMaxStages));
  }
  const char* const type_begin = stage_end.ptr;
  const char* type_end = type_begin;
  while (type_end != end && (*type_end == '_' || (*type_end >= 'A' && *type_end <= 'Z'))) ++type_end;
  const std::string_view name(type_begin, static_cast<std::size_t>(type_end - type_begin));
  if (is_skipped(name)) return std::nullopt;
  const std::optional<ActionType> type = type_of(name);
  if (!type) {
    malformed_cell(
        where, cell,
        name.empty()
            ? kExpected
            : fmt::format("unknown action \"{}\", expected F, B, I, W, SEND_F, RECV_F, SEND_B, RECV_B, "
                          "TF, S, T, IF, IB, ARG, ARE, OPT, SEND_TF or RECV_TF",
                          printable(name, 20)));
  }
  std::uint32_t microbatch = 0;
  const bool end_of_step = !is_compute(*type) && !is_transfer(*type);
  if (!(type_end == end && end_of_step)) {
    const auto microbatch_end = std::from_chars(type_end, end, microbatch);
    if (microbatch_end.ec == std::errc::result_out_of_range || microbatch >= kMaxMicrobatches) {
      malformed_cell(where, cell,
                     fmt::format("micro-batch too large, expected less than {}", kMaxMicrobatches));
    }
    if (microbatch_end.ec != std::errc() || microbatch_end.ptr != end) malformed_cell(where, cell, kExpected);
  }
  return Action{*type, false, static_cast<std::uint16_t>(stage), microbatch};
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r'))
    text.remove_suffix(1);
  return text;
}

void malformed_cell(const std::string& where, std::string_view cell, const std::string& why) {
  throw InputError(fmt::format("{}: \"{}\": {}", where, printable(cell), why));
}

int parse_cell(std::string_view cell, Action (&actions)[2], const std::string& where) {
  if (cell.front() != '(') {
    const std::optional<Action> action = parse_action(cell, where);
    if (action) actions[0] = *action;
    return action ? 1 : 0;
  }
  const std::size_t semicolon = cell.find(';');
  const std::size_t close = cell.find(')');
  if (semicolon == std::string_view::npos || close == std::string_view::npos || semicolon > close ||
      cell.substr(close + 1) != kOverlap) {
    malformed_cell(where, cell, "expected a pair such as (0F1;3B0)OVERLAP_F_B");
  }
  const auto first = parse_action(trimmed(cell.substr(1, semicolon - 1)), where);
  const auto second = parse_action(trimmed(cell.substr(semicolon + 1, close - semicolon - 1)), where);
  if (!first || !second || !is_compute(first->type) || !is_compute(second->type)) {
    malformed_cell(where, cell, "only two compute actions can overlap");
  }
  actions[0] = *first;
  actions[0].overlaps_next = true;
  actions[1] = *second;
  return 2;
}

void append_cells(const std::vector<Action>& actions, char separator, std::string& text) {
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (i > 0) text += separator;
    if (actions[i].overlaps_next && i + 1 < actions.size()) {
      fmt::format_to(std::back_inserter(text), "({};{}){}", to_string(actions[i]), to_string(actions[i + 1]),
                     kOverlap);
      ++i;
    } else {
      text += to_string(actions[i]);
    }
  }
}

}  // namespace plumbline

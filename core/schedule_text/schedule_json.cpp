#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/output_json.hpp"
#include "core/schedule/dependency_walk.hpp"
#include "core/schedule_text/schedule_cells.hpp"
#include "core/schedule_text/schedule_text.hpp"

namespace plumbline {
namespace {

VocabPasses vocab_of(const JsonKeys& keys) {
  const std::string name = keys.string_or("vocab", "none");
  if (const auto passes = find_vocab_passes(name)) return *passes;
  keys.refuse("vocab", "none, two_barriers, one_barrier or interlaced");
}

}  // namespace

std::string to_json(const Schedule& schedule) {
  nlohmann::ordered_json json;
  json["schema"] = 1;
  json["name"] = schedule.name;
  json["ranks"] = schedule.ranks;
  json["stages"] = schedule.stages;
  json["microbatches"] = schedule.microbatches;
  json["routes"] = schedule.routes;
  json["barrier_at_end"] = schedule.barrier_at_end;
  json["vocab"] = std::string(name_of(schedule.vocab));
  json["joint_teacher"] = schedule.joint_teacher;
  json["rank_of_stage"] = schedule.rank_of_stage;
  auto& rows = json["actions"] = nlohmann::ordered_json::array();
  for (const auto& actions : schedule.actions) {
    auto row = nlohmann::ordered_json::array();
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const std::size_t count = actions[i].overlaps_next && i + 1 < actions.size() ? 2 : 1;
      std::string cell;
      append_cells({actions.begin() + static_cast<std::ptrdiff_t>(i),
                    actions.begin() + static_cast<std::ptrdiff_t>(i + count)},
                   ',', cell);
      row.push_back(std::move(cell));
      i += count - 1;
    }
    rows.push_back(std::move(row));
  }
  return output_json(json, -1) + "\n";
}

Schedule parse_schedule_json(std::string_view text, const std::string& origin) {
  const Json json = parse_json_object(text, origin, 4);
  const JsonKeys keys(json, origin);
  Schedule schedule;
  schedule.name = printable(keys.string_or("name", origin), kLongestScheduleName);
  schedule.ranks = static_cast<int>(keys.integer("ranks", kMaxRanks));
  schedule.stages = static_cast<int>(keys.integer("stages", kMaxStages));
  schedule.microbatches = static_cast<int>(keys.integer("microbatches", kMaxMicrobatches));
  schedule.routes = static_cast<int>(keys.integer_or("routes", 2, 1));
  schedule.barrier_at_end = keys.boolean_or("barrier_at_end", true);
  schedule.joint_teacher = keys.boolean_or("joint_teacher", false);
  schedule.vocab = vocab_of(keys);
  for (const Json& rank : keys.list("rank_of_stage")) {
    if (!JsonKeys::integer_in(rank, 0, schedule.ranks - 1)) {
      keys.fail("rank_of_stage",
                fmt::format("{} is not a rank, expected 0 to {}", JsonKeys::shown(rank), schedule.ranks - 1));
    }
    schedule.rank_of_stage.push_back(rank.get<int>());
  }
  std::size_t cells = 0;
  for (const Json& row : keys.list("actions")) {
    if (!row.is_array())
      keys.fail("actions", fmt::format("row {}: expected a list", schedule.actions.size() + 1));
    std::vector<Action>& actions = schedule.actions.emplace_back();
    for (std::size_t column = 0; column < row.size(); ++column) {
      const std::string where =
          fmt::format("{}: row {}, column {}", origin, schedule.actions.size(), column + 1);
      if (!row[column].is_string()) malformed_cell(where, JsonKeys::shown(row[column]), "expected a text");
      const std::string& cell = row[column].get_ref<const std::string&>();
      if (trimmed(cell).empty()) continue;
      Action parsed[2];
      const int count = parse_cell(trimmed(cell), parsed, where);
      actions.insert(actions.end(), parsed, parsed + count);
    }
    cells += actions.size();
  }
  if (static_cast<std::uint64_t>(schedule.stages) * static_cast<std::uint64_t>(schedule.microbatches) >
      static_cast<std::uint64_t>(cells) * 2) {
    throw InputError(fmt::format("{}: {} actions cannot fill {} stages of {} micro-batches", origin, cells,
                                 schedule.stages, schedule.microbatches));
  }
  check_ranges(schedule);
  return schedule;
}

}  // namespace plumbline

#include "core/schedule_text/schedule_shape.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.hpp"

namespace plumbline {
namespace {

struct Counts {
  std::size_t cells = 0;
  std::size_t forwards = 0;
  std::vector<std::uint32_t> forwards_of_stage;
  std::uint32_t microbatches = 0;
};

Counts count(const Schedule& schedule) {
  Counts counts;
  for (const auto& actions : schedule.actions) {
    counts.cells += actions.size();
    for (const Action& action : actions) {
      if (counts.forwards_of_stage.size() <= action.stage) counts.forwards_of_stage.resize(action.stage + 1U);
      counts.microbatches = std::max(counts.microbatches, action.microbatch + 1);
      if (action.type == ActionType::forward) {
        ++counts.forwards;
        ++counts.forwards_of_stage[action.stage];
      }
    }
  }
  return counts;
}

class Shape {
 public:
  Shape(Schedule& schedule, const std::vector<std::vector<std::uint32_t>>& columns, const std::string& origin)
      : schedule_(schedule), columns_(columns), origin_(origin), counts_(count(schedule)) {}

  void infer() {
    if (counts_.cells == 0) {
      throw InputError(
          fmt::format("{}: row 1, column 1: no actions, expected one line of cells per rank", origin_));
    }
    schedule_.ranks = static_cast<int>(schedule_.actions.size());
    schedule_.stages = static_cast<int>(counts_.forwards_of_stage.size());
    schedule_.microbatches = static_cast<int>(counts_.microbatches);
    // Two routes (DualPipe): the first stage sees the first half of the micro-batches only.
    schedule_.routes = schedule_.stages % 2 == 0 && counts_.microbatches % 2 == 0 &&
                               counts_.forwards_of_stage[0] * std::size_t{2} == counts_.microbatches
                           ? 2
                           : 1;
    place_stages();
    // A gap in the numbers would make tables over (stage, micro-batch) larger than the file that asks for
    // them.
    const auto expected = static_cast<std::uint64_t>(schedule_.stages) * counts_.microbatches;
    if (expected >
        static_cast<std::uint64_t>(counts_.forwards) * static_cast<std::uint64_t>(schedule_.routes)) {
      report_gap();
    }
  }

 private:
  [[noreturn]] void fail(std::size_t row, std::size_t index, const std::string& why) const {
    throw InputError(fmt::format("{}: row {}, column {}: {}: {}", origin_, row + 1, columns_[row][index],
                                 to_string(schedule_.actions[row][index]), why));
  }

  void place_stages() {
    schedule_.rank_of_stage.assign(static_cast<std::size_t>(schedule_.stages), -1);
    for (std::size_t row = 0; row < schedule_.actions.size(); ++row) {
      for (std::size_t i = 0; i < schedule_.actions[row].size(); ++i) {
        const Action& action = schedule_.actions[row][i];
        int& owner = schedule_.rank_of_stage[action.stage];
        if (owner < 0) owner = static_cast<int>(row);
        if (owner != static_cast<int>(row)) {
          fail(row, i, fmt::format("stage {} belongs to row {} already", action.stage, owner + 1));
        }
      }
    }
  }

  /// "1B2 in row 2, column 5": the first action of the last micro-batch.
  std::string last_microbatch() const {
    for (std::size_t row = 0; row < schedule_.actions.size(); ++row) {
      for (std::size_t i = 0; i < schedule_.actions[row].size(); ++i) {
        const Action& action = schedule_.actions[row][i];
        if (is_compute(action.type) && action.microbatch + std::uint64_t{1} == counts_.microbatches)
          return fmt::format("{} in row {}, column {}", to_string(action), row + 1, columns_[row][i]);
      }
    }
    return "its actions";
  }

  /// Names the first stage that lacks an F, and the first cell that shows it.
  [[noreturn]] void report_gap() const {
    std::size_t stage = 0;
    while (counts_.forwards_of_stage[stage] * static_cast<std::uint64_t>(schedule_.routes) >=
           counts_.microbatches) {
      ++stage;
    }
    const int owner = schedule_.rank_of_stage[stage];
    const auto row = static_cast<std::size_t>(std::max(owner, 0));
    if (owner < 0) {
      const auto highest = static_cast<std::size_t>(schedule_.rank_of_stage.back());
      const auto& actions = schedule_.actions[highest];
      const auto cell = std::find_if(actions.begin(), actions.end(),
                                     [&](const Action& a) { return a.stage == schedule_.stages - 1; });
      fail(highest, static_cast<std::size_t>(cell - actions.begin()),
           fmt::format("leaves a gap, stage {} appears nowhere", stage));
    }
    // Micro-batches beyond the number of forwards cannot all be there, so this many bits are enough.
    const std::size_t width = counts_.forwards_of_stage[stage] + std::size_t{1};
    std::vector<bool> seen(width);
    const auto& actions = schedule_.actions[row];
    for (const Action& action : actions) {
      if (action.type == ActionType::forward && action.stage == stage && action.microbatch < width) {
        seen[action.microbatch] = true;
      }
    }
    const auto missing =
        static_cast<std::uint32_t>(std::find(seen.begin(), seen.end(), false) - seen.begin());
    std::size_t shown = 0;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (actions[i].stage != stage) continue;
      shown = i;
      if (actions[i].microbatch >= missing) break;
    }
    fail(row, shown,
         fmt::format("{}F{} is missing, the file has {} micro-batches by {}", stage, missing,
                     counts_.microbatches, last_microbatch()));
  }

  Schedule& schedule_;
  const std::vector<std::vector<std::uint32_t>>& columns_;
  const std::string& origin_;
  Counts counts_;
};

}  // namespace

void infer_shape(Schedule& schedule, const std::vector<std::vector<std::uint32_t>>& columns,
                 const std::string& origin) {
  Shape(schedule, columns, origin).infer();
}

}  // namespace plumbline

// The loop over cells.
#include "bench/matrix/matrix_runner.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <unordered_set>

#include "bench/processes/launch/interrupts.hpp"
#include "bench/record/rounds_of_cell.hpp"
#include "core/base/atomic_file.hpp"
#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/config_keys.hpp"
#include "core/config_text/config_listing.hpp"

namespace plumbline {
namespace {

/// Every key of the configuration; an invalid cell has at least those that the matrix gave it.
std::vector<std::pair<std::string, std::string>> config_of(const MatrixCell& cell) {
  auto config = describe(cell.config);
  for (const auto& given : cell.values) {
    const auto known = std::find_if(config.begin(), config.end(),
                                    [&](const auto& pair) { return pair.first == given.first; });
    if (known == config.end()) {
      config.push_back(given);
    } else if (!cell.invalid.empty()) {
      known->second = given.second;
    }
  }
  return config;
}

void predict(const MatrixCell& cell, const MatrixHooks& hooks, Record& record) {
  try {
    hooks.predict(cell, record);
  } catch (const InputError& error) {
    record.status = Status::invalid;
    record.reason = error.what();
  } catch (const std::exception& error) {
    record.status = Status::failed;
    record.reason = fmt::format("prediction: {}", one_line(error.what()));
  }
}

/// False when the run was stopped.
bool measure(const MatrixCell& cell, const MatrixHooks& hooks, const std::function<bool()>& go_on,
             Record& record) {
  if (!hooks.measure) {
    if (record.prediction && !record.prediction->fits) {
      record.status = Status::oom;
      if (record.reason.empty()) record.reason = why_not_fitting(*record.prediction);
    }
    return true;
  }
  if (const auto why = why_unsupported(cell.config)) {
    record.status = Status::unsupported;
    record.reason = *why;
    return true;
  }
  try {
    return hooks.measure(cell, go_on, record);
  } catch (const InputError&) {
    throw;
  } catch (const OutputError&) {
    throw;  // the cell is well, the disk is not
  } catch (const std::exception& error) {
    record.status = Status::failed;
    record.reason = one_line(error.what());
    return true;
  }
}

/// "tp 2, pp 1": the keys that differ between cells.
std::string label_of(const MatrixCell& cell) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : cell.values) {
    const ConfigKey* key = find_config_key(name);
    parts.push_back(fmt::format("{} {}", key == nullptr || key->alias.empty() ? name : key->alias, value));
  }
  return parts.empty() ? cell.id : fmt::format("{}", fmt::join(parts, ", "));
}

std::string outcome_of(const Record& record) {
  if (record.disturbed())
    return fmt::format("{}, disturbed: {}", name_of(record.status),
                       what_disturbed(record.measurement->disturbance));
  return record.reason.empty() ? std::string(name_of(record.status))
                               : fmt::format("{}: {}", name_of(record.status), record.reason);
}

}  // namespace

namespace {

/// Times that a cell counts as measured: all of `rounds` where once more would give nothing new.
int rounds_done(const MatrixCell& cell, const RecordStore& store, const MatrixOptions& options) {
  const Record* record = store.records().find(cell.id);
  if (record == nullptr) return 0;
  const bool settled = record->status == Status::ok || record->status == Status::oom;
  if (options.retry && !settled) return 0;  // files, machine and program may be others now
  return record->measurement ? std::min(record->measurement->rounds, options.rounds) : options.rounds;
}

/// Says so where the folder holds cells of another matrix.
void name_other_cells(const std::vector<MatrixCell>& cells, const RecordStore& store, Progress& progress) {
  std::unordered_set<std::string_view> ids;
  for (const MatrixCell& cell : cells) ids.insert(cell.id);
  const std::vector<Record>& stored = store.records().all();
  const auto others = std::count_if(stored.begin(), stored.end(),
                                    [&](const Record& record) { return !ids.contains(record.id); });
  if (others == 0) return;
  progress.say(
      fmt::format("note: {} holds {} cells of another matrix, too, which `compare` shows beside these; "
                  "name another folder with --out to keep them apart",
                  store.path(), others));
}

/// Who may come later in a slow hour must not be the same cells in every round.
void shuffle_round(std::vector<const MatrixCell*>& cells, int round) {
  std::shuffle(cells.begin(), cells.end(), std::mt19937_64(static_cast<std::uint64_t>(round)));
}

}  // namespace

bool is_done(const MatrixCell& cell, const RecordStore& store, const MatrixOptions& options) {
  return rounds_done(cell, store, options) >= options.rounds;
}

int count_done(const std::vector<MatrixCell>& cells, const RecordStore& store, const MatrixOptions& options) {
  int done = 0;
  for (const MatrixCell& cell : cells) done += rounds_done(cell, store, options);
  return done;
}

MatrixOutcome run_matrix(const std::vector<MatrixCell>& cells, RecordStore& store, const MatrixHooks& hooks,
                         const MatrixOptions& options, Progress& progress) {
  const Interrupts interrupts;
  name_other_cells(cells, store, progress);
  MatrixOutcome outcome;
  outcome.cells = static_cast<int>(cells.size()) * options.rounds;
  std::vector<const MatrixCell*> missing;  // with several rounds one round after the other
  outcome.done_before = count_done(cells, store, options);
  for (int round = 0; round < options.rounds; ++round) {
    std::vector<const MatrixCell*> of_round;
    for (const MatrixCell& cell : cells) {
      if (rounds_done(cell, store, options) <= round) of_round.push_back(&cell);
    }
    if (options.rounds > 1) shuffle_round(of_round, round);
    missing.insert(missing.end(), of_round.begin(), of_round.end());
  }
  const auto go_on = [&] {
    progress.tick();
    return !Interrupts::requested();
  };
  const auto stopped = [&] {
    outcome.stopped = true;
    progress.say(fmt::format("stopped: {} of {} cells are done; the same command does the rest",
                             outcome.done_before + outcome.done_now, outcome.cells));
    return outcome;
  };
  for (const MatrixCell* cell : missing) {
    // A cell that went out of memory in one round does so in every one.
    if (options.rounds > 1 && is_done(*cell, store, {false, options.rounds}) && !options.retry) continue;
    if (!go_on()) return stopped();
    std::optional<CellClaim> claim;
    if (options.claims != nullptr) {
      claim = options.claims->take(cell->id);
      if (!claim) continue;  // another runner has it
      store.refresh();
      if (store.is_new(cell->id) || is_done(*cell, store, options)) continue;  // and another had it
    }
    progress.begin(label_of(*cell));
    Record record;
    record.id = cell->id;
    record.config = config_of(*cell);
    if (!cell->baseline.empty()) record.baseline = BaselineReport{cell->baseline};
    record.machine = hooks.machine;
    if (cell->invalid.empty()) {
      predict(*cell, hooks, record);
    } else {
      record.status = Status::invalid;
      record.reason = cell->invalid;
    }
    store.check_place();
    try {
      if (record.status == Status::ok && !measure(*cell, hooks, go_on, record)) return stopped();
    } catch (const Error&) {
      store.check_place();  // which would be the reason
      throw;
    }
    const Record* earlier = options.rounds > 1 ? store.records().find(cell->id) : nullptr;
    if (earlier != nullptr && earlier->status == Status::ok) add_rounds(*earlier, record);
    store.append(record);
    hooks.stored(record);
    ++outcome.done_now;
    progress.end(outcome_of(record));
  }
  return outcome;
}

}  // namespace plumbline

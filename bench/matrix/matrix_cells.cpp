#include "bench/matrix/matrix_cells.hpp"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "bench/evaluate/cell_duration.hpp"
#include "bench/evaluate/evaluation.hpp"
#include "bench/evaluate/host_memory_check.hpp"
#include "bench/matrix/cell_prediction.hpp"
#include "bench/matrix/matrix_runner.hpp"
#include "bench/matrix/matrix_time.hpp"
#include "bench/measure/machine/available_memory.hpp"
#include "bench/measure/machine/machine.hpp"
#include "bench/plan/keys_without_effect.hpp"
#include "bench/record/cell_claims.hpp"
#include "bench/run/cell_timelines.hpp"
#include "bench/show/text/progress.hpp"
#include "core/base/error.hpp"
#include "core/base/output_folder.hpp"
#include "core/base/standard_streams.hpp"

namespace plumbline {
namespace {

/// Before any cell is measured: throws InputError for a link in the place of timelines that will be written.
void refuse_links(const std::vector<MatrixCell>& cells, const std::string& folder, const RecordStore& store,
                  const MatrixOptions& options) {
  for (const MatrixCell& cell : cells) {
    const auto path = timeline_path(folder, cell.id);
    if (!path || is_done(cell, store, options)) continue;
    const std::filesystem::path place(*path);
    const std::string parent = place.parent_path().string();
    std::error_code unknown;
    if (std::filesystem::is_symlink(parent, unknown) || std::filesystem::is_symlink(place, unknown))
      OutputFolder::made(parent).check(place.filename().string());
  }
}

constexpr int kMostRepeats = 2;

Seconds seconds_since(std::chrono::steady_clock::time_point start) {
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()};
}

/// Repeats the measurement of a disturbed cell while there is time, and keeps the least disturbed one.
/// `predicted`: its duration.
bool measure_undisturbed(const RunConfig& config, const CellProgram& program, const CellRun& run,
                         Seconds predicted, MatrixTime& time, Record& record) {
  auto start = std::chrono::steady_clock::now();
  if (!measure_cell(config, program, run, record)) return false;
  const Seconds took = seconds_since(start);
  time.measured(predicted, took);
  for (int repeat = 1; repeat <= kMostRepeats && record.disturbed() && time.has_time_to_repeat(took);
       ++repeat) {
    Record again = record;
    start = std::chrono::steady_clock::now();
    if (!measure_cell(config, program, run, again)) return false;
    time.repeated(seconds_since(start));
    if (again.status == Status::ok &&
        worst_share(again.measurement->disturbance) < worst_share(record.measurement->disturbance)) {
      record = std::move(again);
    }
    record.measurement->disturbance.repeats = repeat;
  }
  return true;
}

/// Cells to be measured, and their duration.
struct Ahead {
  std::map<std::string, CellDuration> cells;  // by id; without cells of unknown duration
  int count = 0;                              // of all cells
  Seconds all;                                // in all rounds
};

Ahead look_ahead(const std::vector<MatrixCell>& cells, const RecordStore& store, const MatrixOptions& options,
                 CellEstimates& estimates) {
  Ahead ahead;
  for (const MatrixCell& cell : cells) {
    const int rounds = options.rounds - count_done({cell}, store, options);
    if (rounds <= 0) continue;
    ++ahead.count;
    const auto duration = estimates.of(cell);
    if (!duration) continue;
    ahead.cells.emplace(cell.id, *duration);
    ahead.all += static_cast<double>(rounds) * duration->predicted;
  }
  return ahead;
}

void tell(const Ahead& ahead, const std::string& chosen) {
  std::string line;
  if (ahead.all > Seconds{})
    line = fmt::format("about {} for {} cells", readable_duration(ahead.all.value), ahead.count);
  if (!chosen.empty()) line += (line.empty() ? "" : ": ") + chosen;
  if (!line.empty()) say(line + "\n");
}

/// Keys without effect in any cell; one that a cell needs stands in the file for that one.
std::vector<std::string> idle_keys(const std::vector<MatrixCell>& cells) {
  std::map<std::string, std::size_t> counts;
  std::size_t valid = 0;
  for (const MatrixCell& cell : cells) {
    if (!cell.invalid.empty()) continue;
    ++valid;
    for (const std::string& line : keys_without_effect(cell.config)) ++counts[line];
  }
  std::vector<std::string> lines;
  for (const auto& [line, count] : counts) {
    if (count == valid) lines.push_back(line);
  }
  return lines;
}

/// A profile that cannot be read is no fault of the cells.
void check_profiles(const std::vector<MatrixCell>& cells) {
  std::set<std::pair<Backend, std::string>> known;
  std::string ignored;
  for (const MatrixCell& cell : cells) {
    const MachineConfig& machine = cell.config.machine;
    if (cell.invalid.empty() && known.emplace(machine.backend, machine.hardware).second)
      hardware_of(cell.config, ignored);
  }
}

}  // namespace

bool keeps_timelines(const std::string& when, bool predict_only, std::size_t cells) {
  constexpr std::size_t kMostByThemselves = 500;
  if (when != "auto") return when == "always";
  if (!predict_only || cells <= kMostByThemselves) return true;
  say(fmt::format("note: no timelines are kept of {} cells; --timelines always keeps them\n", cells));
  return false;
}

ExitCode ending_of(const CellsResult& result, bool predict_only) {
  bool failed = result.stopped;
  bool timed_out = false;
  const Record* unmeasured = nullptr;
  std::size_t count = 0;
  for (const Record& record : result.records) {
    failed = failed || record.status == Status::failed;
    timed_out = timed_out || record.status == Status::timeout;
    if (record.status == Status::ok || record.status == Status::oom) continue;
    ++count;
    if (unmeasured == nullptr) unmeasured = &record;
  }
  if (!predict_only && unmeasured != nullptr && count == result.records.size()) {
    say(fmt::format(
        "plumbline: nothing was measured: none of {} cells ended ok or oom; the first is {}: {}\n", count,
        name_of(unmeasured->status), unmeasured->reason));
  }
  return timed_out ? ExitCode::timed_out : failed ? ExitCode::rank_failed : ExitCode::done;
}

std::string results_folder(const std::string& out, const std::string& matrix) {
  if (!out.empty()) return out;
  if (matrix.empty() || matrix.starts_with("--")) return "plumbline-results";
  namespace fs = std::filesystem;
  fs::path name = fs::absolute(matrix).lexically_normal();
  if (!name.has_filename()) name = name.parent_path();  // "folder/"
  const bool file = name.extension() == ".yaml" || name.extension() == ".yml" || name.extension() == ".json";
  const fs::path shown = file ? name.stem() : name.filename();  // the dot of "qwen2.5-0.5b" ends no name
  return shown.string() + "-results";
}

CellsResult run_cells(const std::vector<MatrixCell>& cells, const CellsRequest& request,
                      CellEstimates& estimates) {
  const std::string& folder = request.folder;
  check_profiles(cells);
  RecordStore store(folder, request.predict_only ? kPredictionsFile : kResultsFile,
                    request.share ? StoreUse::shared : StoreUse::alone);
  std::optional<CellClaims> claims;
  if (request.share) claims.emplace(folder);
  CellNotes notes;
  const MatrixOptions options{request.retry, request.predict_only ? 1 : request.rounds,
                              claims ? &*claims : nullptr};
  refuse_links(cells, folder, store, options);
  const Ahead ahead = request.predict_only ? Ahead{} : look_ahead(cells, store, options, estimates);
  MatrixTime time(ahead.all);
  if (!request.quiet) tell(ahead, request.chosen);
  MatrixHooks hooks;
  hooks.machine = this_machine();
  hooks.stored = request.on_record;
  hooks.predict = [&](const MatrixCell& cell, Record& record) {
    const auto timeline = request.timelines ? timeline_path(folder, cell.id) : std::nullopt;
    predict_cell(cell, timeline, request.predict_only, notes, record);
  };
  if (!request.predict_only) {
    hooks.measure = [&](const MatrixCell& cell, const std::function<bool()>& go_on, Record& record) {
      int ranks_here = cell.config.layout().world();
      try {
        if (!request.hosts.empty()) ranks_here = hosts_for(request.hosts, ranks_here).front().slots;
        if (!has_device(cell.config, ranks_here, record)) return true;
        for (std::string& remark : check_files(cell.config)) notes.doubts.insert(std::move(remark));
      } catch (const Error& refusal) {
        record.status = Status::failed;  // files may come, hosts may change
        record.reason = refusal.what();
        return true;
      }
      if (const auto why = why_not_in_host_memory(cell.config, {ranks_here}, available_memory())) {
        // Memory that others use now may be free later.
        const bool never = why_not_in_host_memory(cell.config, {ranks_here}, total_memory()).has_value();
        record.status = never ? Status::unsupported : Status::failed;
        record.reason = *why;
        return true;
      }
      CellProgram program;
      if (const auto path = timeline_path(folder, cell.id); path && request.timelines) {
        program.command.insert(program.command.end(),
                               {"--timelines", std::filesystem::absolute(*path).string()});
      }
      const auto known = ahead.cells.find(cell.id);
      const CellDuration duration = known == ahead.cells.end() ? CellDuration{{}, true} : known->second;
      const bool went_on =
          measure_undisturbed(cell.config, program,
                              {.folder = folder + "/cells",
                               .name = cell.id,
                               .go_on = go_on,
                               .on_line = {},
                               .on_unsaved = [&](const std::string& why) { notes.unsaved.add(why); },
                               .hosts = request.hosts,
                               .timeout = derived_timeout(duration, time.pace())},
                              duration.predicted, time, record);
      // The configuration was found valid before: ranks refuse a file or the machine.
      if (record.status == Status::invalid) record.status = Status::failed;
      return went_on;
    };
  }
  const int done_before = count_done(cells, store, options);
  for (const MatrixCell& cell : cells) {
    if (const Record* record = store.records().find(cell.id)) request.on_record(*record);
  }
  CellsResult result;
  {
    Progress progress(static_cast<int>(cells.size()) * options.rounds, done_before,
                      request.quiet ? nullptr : stderr);
    result.stopped = run_matrix(cells, store, hooks, options, progress).stopped;
  }
  notes.unsaved.tell();
  if (!notes.note.empty()) say(fmt::format("note: {}\n", notes.note));
  for (const std::string& doubt : notes.doubts) say(fmt::format("note: {}\n", doubt));
  for (const std::string& idle : idle_keys(cells)) say(fmt::format("note: {}\n", idle));
  for (const MatrixCell& cell : cells) {
    if (const Record* record = store.records().find(cell.id)) result.records.push_back(*record);
  }
  set_speedups(result.records);
  return result;
}

}  // namespace plumbline

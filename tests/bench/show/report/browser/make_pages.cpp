// Writes the pages that the browser check opens: make_pages OUT_DIR RECORDS.jsonl. Timelines and the large
// matrix are made up here from simulated schedules; they exercise the page and are nobody's measurement.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>

#include "analysis/simulate/simulator.hpp"
#include "bench/record/record_store.hpp"
#include "bench/show/report/html_report.hpp"
#include "schedules/make_schedule.hpp"
#include "schedules/passes.hpp"

namespace plumbline {
namespace {

/// Small numbers without a pattern that the eye could see, the same on every machine.
class Noise {
 public:
  double next() {  // [0, 1)
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<double>(state_ >> 11) * 0x1p-53;
  }

 private:
  std::uint64_t state_ = 42;
};

Schedule schedule_of(const std::string& name, int ranks, int microbatches) {
  ScheduleRequest request;
  request.name = name;
  request.ranks = ranks;
  request.microbatches = microbatches;
  StepEndActions end;
  end.tied_embedding = true;
  return add_step_end(add_transfers(make_schedule(request), TransferOrder::sends_first), end);
}

Trace trace_of(const Schedule& schedule, double spread, Noise& noise) {
  Costs costs;
  for (int stage = 0; stage < schedule.stages; ++stage) {
    const double scale = 0.02 * schedule.ranks / schedule.stages * (1 + spread * noise.next());
    StageCosts each;
    each.forward = {scale};
    each.backward = {2 * scale};
    each.backward_input = {scale};
    each.backward_weight = {0.9 * scale};
    each.vocab_forward = {0.3 * scale};
    each.vocab_backward = {0.4 * scale};
    costs.stages.push_back(each);
  }
  costs.transfer = {0.0008};
  costs.optimizer = {0.012};
  costs.reduce_embedding = {0.004};
  return simulate(schedule, costs);
}

/// Activations grow with F and go with B; parameters and optimizer states stay.
std::vector<std::vector<MemorySample>> memory_of(const Trace& trace) {
  std::vector<std::vector<MemorySample>> memory;
  for (const auto& events : trace.ranks) {
    MemoryBreakdown now;
    now[Category::parameters] = {65 << 20};
    now[Category::gradients] = {130 << 20};
    now[Category::optimizer] = {390 << 20};
    auto& samples = memory.emplace_back();
    for (const Event& event : events) {
      MemorySample sample{now, now};
      const bool forward = event.action.type == ActionType::forward;
      const bool backward =
          event.action.type == ActionType::backward || event.action.type == ActionType::backward_weight;
      if (forward) sample.after[Category::activations] += {33 << 20};
      if (backward && sample.after[Category::activations] >= Bytes{33 << 20})
        sample.after[Category::activations] -= {33 << 20};
      sample.peak[Category::activations] =
          std::max(now[Category::activations], sample.after[Category::activations]);
      if (forward || backward) sample.peak[Category::workspace] = {12 << 20};
      now = sample.after;
      samples.push_back(sample);
    }
  }
  return memory;
}

CellTimelines timelines_of(const std::string& id, const std::string& name, int ranks, int microbatches,
                           bool with_memory) {
  Noise noise;
  const Schedule schedule = schedule_of(name, ranks, microbatches);
  CellTimelines timelines{id, Timeline{trace_of(schedule, 0.02, noise), {}},
                          Timeline{trace_of(schedule, 0.35, noise), {}}};
  // Two groups' collectives in every forward and backward: one half exposed, the other hidden.
  for (Timeline* timeline : {&*timelines.predicted, &*timelines.measured}) {
    if (ranks > 8) break;
    for (const auto& events : timeline->trace.ranks) {
      auto& lanes = timeline->lanes.emplace_back();
      for (const Event& event : events) {
        if (!is_compute(event.action.type)) continue;
        const Seconds part = (event.end - event.start) / 4;
        lanes.push_back({Group::tensor, event.start + part, event.start + part * 2, part / 2});
        lanes.push_back({Group::data, event.start + part * 2, event.end, {}});
      }
      std::sort(lanes.begin(), lanes.end(),
                [](const LaneSpan& a, const LaneSpan& b) { return a.start < b.start; });
    }
  }
  if (with_memory) {
    timelines.predicted->memory = memory_of(timelines.predicted->trace);
    timelines.measured->memory = memory_of(timelines.measured->trace);
  }
  return timelines;
}

std::string& config_of(Record& record, const std::string& key) {
  for (auto& pair : record.config) {
    if (pair.first == key) return pair.second;
  }
  record.config.emplace_back(key, "");
  return record.config.back().second;
}

int number_in(Record& record, const std::string& key) {
  return std::stoi(config_of(record, key));
}

/// A run of 200 steps with a kill every 20 s, by turns with one replica until the next checkpoint.
RecoveryReport made_up_failures() {
  RecoveryReport report;
  report.mtbf = {20};
  report.steps = 200;
  report.total = {120};
  report.useful = {60};
  report.lost = {15};
  report.detect = {5};
  report.restart = {40};
  report.goodput = 0.5;
  report.predicted = {0.53, 0.4, 0.66, 0.52, {}};
  report.costs.reduced = {{1, 20, {0.5}}};
  for (int i = 0; i < 5; ++i) {
    const double at = 20.0 * (i + 1);
    report.failures.push_back({"kill", i, {at}, {1}, {6}, {3}, 9, 30 * i + 30, {1}, i % 2 == 0 ? 1 : 2});
    for (int save = 0; save < 3; ++save)
      report.saves.push_back({30 * i + 10 * (save + 1), {at - 12 + 3 * save}, {0.1}, {0.4}});
  }
  return report;
}

/// The recorded cells with timelines of the same shape.
ReportInput demo(const std::vector<Record>& records) {
  ReportInput input{"demo", records, nullptr};
  // Fields that only newer records have.
  for (Record& record : input.records) {
    if (!record.measurement || !record.prediction) continue;
    Traffic traffic;
    traffic.messages_sent = 16;
    traffic.point_to_point_sent = {std::int64_t{1} << 22};
    traffic.of(Group::tensor).add(&GroupTraffic::all_reduced, {std::int64_t{1} << 24});
    record.prediction->traffic = traffic;
    record.measurement->traffic = traffic;
    for (RankMemoryReport& rank : record.measurement->memory.ranks) {
      rank.at = "0F3";
      rank.holders = {{"qkv", Category::activations, {std::int64_t{1} << 23}, 16},
                      {"moments", Category::optimizer, {std::int64_t{1} << 27}, 2}};
    }
  }
  input.records.front().recovery = made_up_failures();
  std::map<std::string, Record> by_id;
  for (const Record& record : records) by_id[record.id] = record;
  input.timelines = [by_id](const std::string& id) -> std::optional<CellTimelines> {
    Record record = by_id.at(id);
    if (!record.measurement) return std::nullopt;
    return timelines_of(id, config_of(record, "pipeline_schedule"),
                        number_in(record, "pipeline_model_parallel_size"), 8, true);
  };
  return input;
}

/// Every schedule's look: V-shaped, two routes, vocabulary passes.
ReportInput shapes(const std::vector<Record>& records) {
  ReportInput input{"schedules", {}, nullptr};
  for (const std::string& name :
       std::vector<std::string>{"zb-v", "dualpipev", "dualpipe", "interleaved", "vocab-2", "zb-h1"}) {
    Record record = records.front();
    record.id = name;
    config_of(record, "pipeline_schedule") = name;
    config_of(record, "pipeline_model_parallel_size") = std::string("4");
    input.records.push_back(record);
  }
  input.timelines = [](const std::string& id) { return timelines_of(id, id, 4, 12, true); };
  return input;
}

/// 1,000 cells, one with 200,000 actions in its predicted and its measured timeline together, or each.
ReportInput large(const std::vector<Record>& records) {
  ReportInput input{"large", {}, nullptr};
  Noise noise;
  for (int i = 0; i < 1000; ++i) {
    Record record = records[static_cast<std::size_t>(i) % records.size()];
    record.id = fmt::format("cell-{}", i);
    config_of(record, "micro_batch_size") = fmt::format("{}", 1 << (i % 5));
    config_of(record, "global_batch_size") = fmt::format("{}", 8 << (i % 8));
    config_of(record, "seq_length") = fmt::format("{}", 256 << (i / 250));
    if (record.measurement) {
      const double factor = std::pow(1.006, i);
      record.measurement->time.step = record.measurement->time.step * (factor * (0.9 + 0.2 * noise.next()));
      record.prediction->time.step = record.prediction->time.step * factor;
      record.error = compare(*record.prediction, *record.measurement);
    }
    input.records.push_back(record);
  }
  input.timelines = [](const std::string& id) -> std::optional<CellTimelines> {
    // 32 ranks, each with some 6,250 actions: F, B, two transfers of each, and the end of the step.
    if (id == "cell-0") return timelines_of(id, "1f1b", 32, 1060, false);
    if (id == "cell-1" || id == "cell-2") return timelines_of(id, "1f1b", 8, 32, true);
    return std::nullopt;
  };
  return input;
}

/// Text that tries to become markup, wherever a record may carry text.
ReportInput hostile(const std::vector<Record>& records) {
  const std::string attack =
      "</script><script>window.attacked=1</script>\"'><img src=x onerror=\"window.attacked=2\"><!--&amp;";
  ReportInput input{attack, {}, nullptr};
  for (int i = 0; i < 3; ++i) {
    Record record = records[static_cast<std::size_t>(i)];
    record.id = fmt::format("{}{}", attack, i);
    record.reason = attack;
    record.status = i == 0 ? Status::ok : Status::oom;
    record.machine.host = attack;
    record.machine.cpu = attack;
    record.machine.versions.emplace_back(attack, attack);
    config_of(record, "model") = fmt::format("{}{}", attack, i);
    config_of(record, "memory_budget") = fmt::format("{}", (i + 1) << 20);
    record.config.emplace_back(attack, fmt::format("{}{}", attack, i));
    input.records.push_back(record);
  }
  input.timelines = [](const std::string& id) { return timelines_of(id, "1f1b", 2, 4, true); };
  return input;
}

/// Fit over the batch size, as in a search for the largest batch.
ReportInput budgets(const std::vector<Record>& records) {
  ReportInput input{"budgets", {}, nullptr};
  for (const std::string& schedule : std::vector<std::string>{"1f1b", "gpipe"}) {
    for (int batch = 8; batch <= 256; batch *= 2) {
      Record record = records[2];
      record.id = fmt::format("{}-{}", schedule, batch);
      config_of(record, "pipeline_schedule") = schedule;
      config_of(record, "global_batch_size") = fmt::format("{}", batch);
      config_of(record, "memory_budget") = fmt::format("{}", std::int64_t{512} << 20);
      const bool fits = batch < (schedule == "gpipe" ? 32 : 512);
      record.prediction->fits = fits;
      if (!fits) {
        record.status = Status::oom;
        record.reason = "rank 0: over its memory budget";
        record.measurement.reset();
        record.error.reset();
      }
      input.records.push_back(record);
    }
  }
  return input;
}

void write(const std::string& path, const ReportInput& input) {
  const std::string page = html_report(input);
  std::ofstream out(path, std::ios::binary);
  out << page;
  out.close();
  if (!out) throw std::runtime_error(path + " cannot be written");
  fmt::print("{} {} bytes\n", path, page.size());
}

}  // namespace
}  // namespace plumbline

int main(int argc, char** argv) {
  using namespace plumbline;  // NOLINT(google-build-using-namespace)
  if (argc != 3) {
    fmt::print(stderr, "usage: make_pages OUT_DIR RECORDS.jsonl\n");
    return 2;
  }
  const std::string folder = argv[1];
  const std::vector<Record> records = load_records(argv[2]);
  write(folder + "/demo.html", demo(records));
  write(folder + "/shapes.html", shapes(records));
  write(folder + "/budgets.html", budgets(records));
  write(folder + "/large.html", large(records));
  write(folder + "/hostile.html", hostile(records));
  return 0;
}

// Published figures of schedules by themselves: bubbles of printed times and formulas of bubble and memory.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "analysis/published/published_readers.hpp"
#include "analysis/simulate/simulator.hpp"

namespace plumbline {
namespace {

using Rows = std::vector<ComparedRow>;

/// Makespan as the published bubbles count it: the longest rank, from its first action to its last.
double longest_rank(const Schedule& schedule, const Costs& costs) {
  const Trace trace = simulate(schedule, costs);
  double longest = 0;
  for (const auto& events : trace.ranks) {
    if (!events.empty()) longest = std::max(longest, (events.back().end - events.front().start).value);
  }
  return longest;
}

/// Stages, `shares` of which make up a rank.
Costs equal_stages(const Schedule& schedule, const StageCosts& rank, int shares) {
  StageCosts stage = rank;
  for (Seconds* part : {&stage.forward, &stage.backward, &stage.backward_input, &stage.backward_weight}) {
    *part = *part / shares;
  }
  return uniform_costs(schedule.stages, stage);
}

/// Most micro-batches' activations of whole ranks at once. Both halves of a split backward count as one: the
/// formulas hold activations until the weight gradient.
double peak_microbatches(const Schedule& schedule, int shares) {
  double peak = 0;
  for (const auto& actions : schedule.actions) {
    double held = 0;
    for (const Action& action : actions) {
      if (action.type == ActionType::forward) held += 1.0 / shares;
      peak = std::max(peak, held);
      const bool frees = action.type == ActionType::backward || action.type == ActionType::backward_weight;
      if (frees) held -= 1.0 / shares;
    }
  }
  return peak;
}

/// A method of schedule_formulas.
struct Method {
  const char* name;
  const char* schedule;
  int chunks;  // stages on a rank
  int shares;  // into which a copy of the model's part is split there: a second copy is not a share
  VocabPasses vocabulary = VocabPasses::none;
};

constexpr std::array<Method, 11> kMethods = {{
    {"1F1B", "1f1b", 1, 1},
    {"ZB1P", "zb-h1", 1, 1},
    {"ZB2P", "zb-h2", 1, 1},
    {"ZBV", "zb-v", 2, 2},
    {"V-Half", "v-half", 2, 2},
    {"V-Min", "v-min", 2, 2},
    {"DualPipe", "dualpipe", 2, 1},
    {"DualPipeV", "dualpipev", 2, 2},
    {"Vocab-1", "1f1b", 1, 1, VocabPasses::two_barriers},
    {"Vocab-2", "1f1b", 1, 1, VocabPasses::one_barrier},
    {"Interlaced", "1f1b", 1, 1, VocabPasses::interlaced},
}};

// The formulas are compared where a rank's forward, input gradient and weight gradient take one second each.
constexpr int kRanks = 32;
constexpr int kMicrobatches = 128;

/// Seconds of bubble in addition to `work` seconds of every rank. DualPipeV's README counts stages, two to a
/// rank.
double bubble_of(const PublishedRow& row, const Method& method, double work) {
  const std::string& text = row.text("bubble");
  const double p = kRanks;
  const double one_f_one_b = (p - 1) / (kMicrobatches + p - 1);
  const auto of_rate = [&](double rate) { return work * rate / (1 - rate); };
  if (text == "(PP-1)(F+B)") return (p - 1) * 3;
  if (text == "(PP-1)(F+B-2W)") return (p - 1) * (3 - 2);
  if (text == "(PP/2-1)(F&B+B-3W)") {
    return method.name == std::string_view("DualPipeV") ? (p - 1) * (3 + 2 - 3) / 2.0
                                                        : (p / 2 - 1) * (3 + 2 - 3);
  }
  if (text == "0") return 0;
  if (text == "B/3") return of_rate(one_f_one_b / 3);
  if (text == "B/2") return of_rate(one_f_one_b / 2);
  if (text == "2B/3+O(n)") return of_rate(2 * one_f_one_b / 3);
  if (text == "B" || text == "rate (p-1)/(m+p-1)=B") return of_rate(one_f_one_b);
  row.fail("bubble", "one of the formulas in results/published/schedule_formulas.csv");
}

double activation_of(const PublishedRow& row, const Method& method) {
  std::string text = row.text("activation").substr(0, row.text("activation").find(';'));
  const double p = kRanks;
  if (text == "PP" || text == "1x") return p;
  if (text.starts_with("PP+1")) return method.name == std::string_view("DualPipeV") ? p + 0.5 : p + 1;
  if (text == "2x") return 2 * p;
  if (text == "1/2x") return p / 2;
  if (text == "1/3x") return p / 3;
  if (text.starts_with("p+2")) return p + 2;
  if (text.starts_with("p+1")) return p + 1;
  if (text.starts_with("1.5p")) return 1.5 * p;
  row.fail("activation", "one of the formulas in results/published/schedule_formulas.csv");
}

}  // namespace

void schedule_formulas(const PublishedRow& row, const Profiles&, const ScheduleMakers& make, Rows& rows) {
  const std::string& name = row.text("method");
  const auto* const method =
      std::find_if(kMethods.begin(), kMethods.end(), [&](const Method& m) { return name == m.name; });
  if (method == kMethods.end()) row.fail("method", "1F1B, ZB1P, ZB2P, ZBV, V-Half, V-Min, DualPipe, ...");
  const ScheduleNeed need{method->schedule, kRanks, kMicrobatches, method->chunks, method->vocabulary};
  StageCosts rank{{1}, {2}, {1}, {1}, {}, {}, {}, {}, {}};
  double work = 3.0 * kMicrobatches;
  if (method->vocabulary != VocabPasses::none) {
    // The formulas do not define the length of vocabulary passes: short ones.
    rank.vocab_forward = rank.vocab_backward = rank.input_forward = rank.input_backward = Seconds{0.01};
    work += 4 * 0.01 * kMicrobatches;
  }
  const Schedule schedule = make.alone(
      need, uniform_costs(kRanks * (method->vocabulary == VocabPasses::none ? method->chunks : 1), rank));
  const std::string label = fmt::format("{} ({})", name, row.text("source"));
  // As whole steps: several bubbles are zero.
  rows.push_back({label, "step_of_formula",
                  longest_rank(schedule, equal_stages(schedule, rank, method->shares)),
                  work + bubble_of(row, *method, work), ""});
  rows.push_back({label, "microbatches_held", peak_microbatches(schedule, method->shares),
                  activation_of(row, *method), ""});
}

void handcrafted_bubbles(const PublishedRow& row, const Profiles&, const ScheduleMakers& make, Rows& rows) {
  // The times behind the rates are printed in the paper's table 4, by model and number of micro-batches.
  // Rates of a model that our copy of it does not hold are left out.
  static const PublishedTable kTimes = [] {
    for (PublishedTable& table : built_in_tables()) {
      if (table.name == "zero_bubble_table4") return std::move(table);
    }
    return PublishedTable{};
  }();
  const std::string& model = row.repeated("model");
  const int microbatches = row.integer("num_microbatches", 10'000);
  const int ranks = row.integer("pp", 256);
  for (std::size_t i = 0; i < kTimes.rows.size(); ++i) {
    const PublishedRow times(kTimes, i);
    // Its labels begin with the model: "1.5B 1F1B m24".
    const std::string& label = times.text("label");
    if (model.substr(model.find(' ') + 1) != label.substr(0, label.find(' ')) ||
        times.integer("num_microbatches") != microbatches)
      continue;
    const double f = times.number("T_F_ms");
    const double b = times.number("T_B_ms");
    const double w = times.number("T_W_ms");
    for (const auto& [column, name] : {std::pair{"bubble_ZB_H1", "zb-h1"}, {"bubble_ZB_H2", "zb-h2"}}) {
      if (!row.has(column)) continue;
      const Schedule schedule = make.alone({name, ranks, microbatches, 1, VocabPasses::none}, {});
      Costs costs = equal_stages(schedule, {{f}, {b + w}, {b}, {w}}, 1);
      costs.latency.value = times.number("T_comm_ms");
      const double rate = 1 - microbatches * (f + b + w) / longest_rank(schedule, costs);
      rows.push_back(
          {fmt::format("{} {} m{}", model, name, microbatches), "bubble_rate", rate, row.number(column), ""});
    }
    return;
  }
}

}  // namespace plumbline

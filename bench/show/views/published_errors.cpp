#include "bench/show/views/published_errors.hpp"

#include <fmt/format.h>

#include "analysis/published/comparable_runs.hpp"
#include "analysis/published/run_changes.hpp"

namespace plumbline {
namespace {

constexpr const char* kQuantities[] = {"step_s", "peak_bytes"};

HeldOutTable together(const std::vector<HeldOutTable>& tables) {
  HeldOutTable all{"together"};
  for (const HeldOutTable& table : tables) {
    all.rows += table.rows;
    all.incomparable += table.incomparable;
    all.inside += table.inside;
    all.width += table.width * table.rows;
  }
  if (all.rows > 0) all.width /= all.rows;
  return all;
}

std::string held_out_line(const HeldOutTable& table, const char* quantity) {
  return fmt::format(
      "{:<40} {:<12} {:>5} {:>5} {:>10} {:>10.2f}\n", table.table, quantity, table.rows, table.incomparable,
      table.rows > 0 ? fmt::format("{:.1f}", 100.0 * table.inside / table.rows) : "", table.width);
}

}  // namespace

OrderedJson kind_json(const RunTraits& traits) {
  const RunKind& kind = traits.kind;
  return {{"origin", origin_of(traits.source)},
          {"kind", kind.mixture ? "moe" : "dense"},
          {"software", kind.software},
          {"hardware", kind.hardware},
          {"gpus", kind.gpus},
          {"tokens_per_gpu", kind.tokens_per_gpu},
          {"peak_tflops", kind.peak_tflops},
          {"bits", kind.bits}};
}

std::string held_out_text(const std::vector<ComparedTable>& tables) {
  std::string text = fmt::format("{:<40} {:<12} {:>5} {:>5} {:>10} {:>10}\n", "table", "quantity", "rows",
                                 "none", "coverage %", "width");
  const std::vector<KnownRun>& known = known_runs();
  for (const char* quantity : kQuantities) {
    const std::vector<HeldOutTable> list = hold_out_tables(tables, known, quantity);
    for (const HeldOutTable& table : list) text += held_out_line(table, quantity);
    if (!list.empty()) text += held_out_line(together(list), quantity);
  }
  return text +
         "coverage: rows within the 80 % interval of comparable published runs of other sources; none: rows "
         "without enough of them; width: of published ÷ predicted\n";
}

OrderedJson held_out_json(const std::vector<ComparedTable>& tables) {
  OrderedJson json = OrderedJson::object();
  const std::vector<KnownRun>& known = known_runs();
  for (const char* quantity : kQuantities) {
    const std::vector<HeldOutTable> list = hold_out_tables(tables, known, quantity);
    if (list.empty()) continue;
    const HeldOutTable all = together(list);
    json[quantity] = {{"rows", all.rows},
                      {"none", all.incomparable},
                      {"inside", all.inside},
                      {"tables", OrderedJson::array()}};
    for (const HeldOutTable& table : list) {
      json[quantity]["tables"].push_back({{"name", table.table},
                                          {"rows", table.rows},
                                          {"none", table.incomparable},
                                          {"inside", table.inside},
                                          {"width", table.width}});
    }
  }
  return json;
}

std::string changes_text(const std::vector<ComparedTable>& tables, bool rows) {
  const std::vector<RunChange> changes = run_changes(tables);
  std::string text = fmt::format("{:<34} {:<12} {:>7} {:>7} {:>7} {:>10}\n", "changed key", "quantity",
                                 "changes", "scored", "right", "median %");
  int scored = 0;
  int right = 0;
  for (const ChangeErrors& errors : errors_of_changes(changes)) {
    text += fmt::format("{:<34} {:<12} {:>7} {:>7} {:>7} {:>10.1f}\n", errors.respect, errors.quantity,
                        errors.changes, errors.scored, errors.right, 100 * errors.median);
    scored += errors.scored;
    right += errors.right;
    if (!rows) continue;
    for (const RunChange& change : changes) {
      if (change.respect != errors.respect || change.quantity != errors.quantity) continue;
      text += fmt::format("  {:>+7.1f} % published {:>+7.1f} %  {} -> {}\n", 100 * (change.predicted - 1),
                          100 * (change.published - 1), change.from, change.to);
    }
  }
  if (scored > 0) {
    text += fmt::format("{} of {} changes of more than {:.0f} % in the right direction ({:.0f} %)\n", right,
                        scored, 100 * kNoChange, 100.0 * right / scored);
  }
  return text;
}

OrderedJson changes_json(const std::vector<ComparedTable>& tables) {
  const std::vector<RunChange> changes = run_changes(tables);
  OrderedJson list = OrderedJson::array();
  for (const ChangeErrors& errors : errors_of_changes(changes)) {
    OrderedJson runs = OrderedJson::array();
    for (const RunChange& change : changes) {
      if (change.respect != errors.respect || change.quantity != errors.quantity) continue;
      runs.push_back({{"table", change.table},
                      {"from", change.from},
                      {"to", change.to},
                      {"predicted", change.predicted},
                      {"published", change.published}});
    }
    list.push_back({{"respect", errors.respect},
                    {"quantity", errors.quantity},
                    {"changes", errors.changes},
                    {"scored", errors.scored},
                    {"right", errors.right},
                    {"median", errors.median},
                    {"runs", std::move(runs)}});
  }
  return list;
}

}  // namespace plumbline

#include "bench/show/views/vary/varied_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "bench/show/text/figures.hpp"
#include "bench/show/text/text_table.hpp"
#include "core/base/byte_text.hpp"
#include "core/base/one_line.hpp"
#include "core/config_text/config_keys.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kLongestValue = 24;
constexpr double kShownChange = 0.0005;  // of the reference's step: a part that changes less has no column

constexpr const Figure<StepTime>* kParts[] = {
    &time_figure("compute_s"),      &time_figure("exposed_tensor_s"),  &time_figure("exposed_pipeline_s"),
    &time_figure("exposed_data_s"), &time_figure("exposed_offload_s"), &time_figure("optimizer_s")};
constexpr const char* kPartTitles[] = {"compute", "TP/CP/EP", "bubble", "DP", "offload", "optimizer"};

std::string short_key(const std::string& key) {
  const ConfigKey* known = find_config_key(key);
  return known == nullptr || known->alias.empty() ? printable(key, kLongestValue) : known->alias;
}

const StepTime& time_of(const VariedRun& run) {
  return run.prediction->time;
}

/// Values of the varied keys; those of the base, from its configuration.
std::vector<std::string> shown_values(const VariedRuns& all, const VariedRun& run) {
  std::vector<std::string> values;
  for (std::size_t i = 0; i < all.keys.size(); ++i) {
    const ConfigKey* key = find_config_key(all.keys[i]);
    const bool base = run.values.empty();
    std::string value = base ? "-" : run.values[i];
    if (base && run.predicted() && key != nullptr) value = key->print(run.config);
    values.push_back(printable(value, kLongestValue));
  }
  return values;
}

/// Unit of the times of a table.
struct TimeUnit {
  const char* name;
  double factor;
  int digits;
  std::string of(double seconds) const { return fmt::format("{:.{}f}", seconds * factor, digits); }
  std::string change(double seconds) const {
    const std::string text = fmt::format("{:+.{}f}", seconds * factor, digits);
    return text.find_first_not_of("+-0.") == std::string::npos ? "0" : text;
  }
};

TimeUnit unit_of(double step) {
  if (step < 1) return {"ms", 1e3, 2};
  return {"s", 1, 3};
}

std::string number_of(std::size_t place) {
  return place == 0 ? "base" : fmt::format("{}", place);
}

std::string gib(Bytes bytes) {
  return fmt::format("{:.2f}", static_cast<double>(bytes.value) / kBytesPerGiB);
}

std::string percent_change(double value, double reference) {
  return fmt::format("{:+.1f}", 100 * (value / reference - 1));
}

/// Parts of the step that change in any run.
std::vector<std::size_t> changing_parts(const VariedRuns& all, const VariedRun& reference) {
  std::vector<std::size_t> parts;
  for (std::size_t i = 0; i < std::size(kParts); ++i) {
    const double least = kShownChange * time_of(reference).step.value;
    const bool any = std::any_of(all.runs.begin(), all.runs.end(), [&](const VariedRun& run) {
      return run.predicted() &&
             std::abs(kParts[i]->of(time_of(run)) - kParts[i]->of(time_of(reference))) > least;
    });
    if (any) parts.push_back(i);
  }
  return parts;
}

using Cells = std::vector<std::string>;

/// Figures of the runs: titles, and the cells of each.
struct FigureBlock {
  Cells titles;
  std::vector<Cells> rows;  // empty cells for a run that is refused
};

FigureBlock absolute_block(const VariedRuns& all, const TimeUnit& unit) {
  FigureBlock block{{"verdict", "needs GiB", fmt::format("step {}", unit.name), "tokens/s", "MFU %"}, {}};
  for (const VariedRun& run : all.runs) {
    block.rows.emplace_back();
    if (!run.predicted()) {
      block.rows.back() = {"refused"};
      continue;
    }
    const Prediction& made = *run.prediction;
    const double mfu = made.throughput.mfu;
    block.rows.back() = {run.verdict.text(), gib(made.fit.needed), unit.of(made.time.step.value),
                         grouped_digits(made.throughput.tokens_per_s),
                         std::isfinite(mfu) ? fmt::format("{:.1f}", 100 * mfu) : "-"};
  }
  return block;
}

FigureBlock change_block(const VariedRuns& all, const VariedRun& reference, const TimeUnit& unit) {
  const std::vector<std::size_t> parts = changing_parts(all, reference);
  FigureBlock block{{"step %"}, {}};
  for (const std::size_t part : parts) block.titles.emplace_back(kPartTitles[part]);
  for (const VariedRun& run : all.runs) {
    Cells& cells = block.rows.emplace_back();
    if (!run.predicted() || &run == &reference) continue;
    cells.push_back(percent_change(time_of(run).step.value, time_of(reference).step.value));
    for (const std::size_t part : parts)
      cells.push_back(unit.change(kParts[part]->of(time_of(run)) - kParts[part]->of(time_of(reference))));
  }
  return block;
}

std::string table_of(const VariedRuns& all, const std::vector<const FigureBlock*>& blocks,
                     std::size_t& width) {
  TextTable table;
  table.column("#");
  for (const std::string& key : all.keys) table.column(short_key(key));
  for (const FigureBlock* block : blocks) {
    for (const std::string& title : block->titles) table.column(title, title == "verdict");
  }
  for (std::size_t i = 0; i < all.runs.size(); ++i) {
    Cells cells = shown_values(all, all.runs[i]);
    cells.insert(cells.begin(), number_of(i));
    for (const FigureBlock* block : blocks) {
      Cells figures = block->rows[i];
      figures.resize(block->titles.size());
      cells.insert(cells.end(), figures.begin(), figures.end());
    }
    table.row(std::move(cells));
  }
  width = table.width();
  return table.text();
}

/// "#2 (tp 4), step -3.1 %, fits", or the base.
std::string run_title(const VariedRuns& all, std::size_t number, const VariedRun& reference) {
  const VariedRun& run = all.runs[number];
  if (&run == &reference) return fmt::format("{}, {}", number_of(number), run.verdict.text());
  return fmt::format("#{} ({}), step {} %, {}", number, title_of(run.settings),
                     percent_change(time_of(run).step.value, time_of(reference).step.value),
                     run.verdict.text());
}

std::string fastest_line(const VariedRuns& all, const VariedRun& reference) {
  const std::size_t best = all.fastest();
  const VariedRun& run = all.runs[best];
  if (!run.predicted() || !run.prediction->fit.fits) return "no configuration fits\n";
  std::string text = fmt::format("fastest that fits: {}\n", run_title(all, best, reference));
  if (const std::size_t sure = all.fastest(true); sure != best)
    text += fmt::format("fastest that is not tight: {}\n", run_title(all, sure, reference));
  return text;
}

OrderedJson settings_json(const Overrides& settings) {
  OrderedJson json = OrderedJson::object();
  for (const Override& each : settings) json[each.key] = each.value;
  return json;
}

template <class Owner, std::size_t kCount>
OrderedJson figures_json(const Figure<Owner> (&figures)[kCount], const Owner& owner) {
  OrderedJson json = OrderedJson::object();
  for (const Figure<Owner>& figure : figures) {
    if (std::isfinite(figure.of(owner))) json[std::string(figure.key)] = figure.of(owner);
  }
  return json;
}

OrderedJson run_json(const VariedRun& run, const VariedRun* reference) {
  if (!run.predicted()) return {{"refusal", run.refusal}};
  const Prediction& made = *run.prediction;
  OrderedJson json = {{"fits", made.fit.fits}, {"verdict", name_of(run.verdict.word)}};
  if (run.verdict.chance) json["chance"] = *run.verdict.chance;
  json["needed_bytes"] = made.fit.needed.value;
  json["limit_bytes"] = made.fit.limit.value;
  json["peak_bytes"] = made.memory.peak.value;
  json["time"] = figures_json(kTimeFigures, made.time);
  json["throughput"] = figures_json(kThroughputFigures, made.throughput);
  if (reference == nullptr || reference == &run) return json;
  OrderedJson difference = {{"step_s", (made.time.step - time_of(*reference).step).value}};
  for (const Figure<StepTime>* part : kParts)
    difference[std::string(part->key)] = part->of(made.time) - part->of(time_of(*reference));
  difference["needed_bytes"] = (made.fit.needed - reference->prediction->fit.needed).value;
  json["difference"] = std::move(difference);
  return json;
}

}  // namespace

std::span<const Figure<StepTime>* const> step_parts() {
  return kParts;
}

std::string title_of(const Overrides& settings) {
  std::string text;
  for (const Override& each : settings) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", short_key(each.key),
                        printable(each.value, kLongestValue));
  }
  return text.empty() ? "base" : text;
}

std::string varied_text(const VariedRuns& all, std::size_t width) {
  const VariedRun* reference = all.reference();
  std::string text;
  if (reference != nullptr) {
    const TimeUnit unit = unit_of(time_of(*reference).step.value);
    const std::string differences =
        fmt::format("step %, compute and on: difference to {}; parts in {} of a step, mean over ranks\n",
                    reference == &all.runs.front() ? "the base" : "the first predicted row", unit.name);
    const FigureBlock absolute = absolute_block(all, unit);
    const FigureBlock changes = change_block(all, *reference, unit);
    std::size_t whole = 0;
    const std::string table = table_of(all, {&absolute, &changes}, whole);
    if (width == 0 || whole <= width) {
      text = table + differences;
    } else {
      text = table_of(all, {&absolute}, whole) + '\n' + table_of(all, {&changes}, whole) + differences;
    }
    text += fastest_line(all, *reference);
  }
  for (std::size_t i = 0; i < all.runs.size(); ++i) {
    if (all.runs[i].predicted()) continue;
    text += fmt::format("{} refused: {}\n", i == 0 ? "base" : fmt::format("#{}", i), all.runs[i].refusal);
  }
  return text;
}

OrderedJson varied_json(const VariedRuns& all) {
  const VariedRun* reference = all.reference();
  OrderedJson json = {{"keys", all.keys}, {"reference", nullptr}, {"fastest", nullptr}};
  const VariedRun& best = all.runs[all.fastest()];
  if (best.predicted() && best.prediction->fit.fits) {
    json["fastest"] = all.fastest();
    json["fastest_not_tight"] = all.fastest(true);
  }
  json["runs"] = OrderedJson::array();
  for (std::size_t i = 0; i < all.runs.size(); ++i) {
    const VariedRun& run = all.runs[i];
    if (&run == reference) json["reference"] = i;
    OrderedJson each = {{"number", i}, {"settings", settings_json(run.settings)}};
    each.update(run_json(run, reference));
    json["runs"].push_back(std::move(each));
  }
  return json;
}

}  // namespace plumbline

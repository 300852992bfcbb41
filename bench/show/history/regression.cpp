#include "bench/show/history/regression.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <map>
#include <set>

#include "bench/show/history/matched_cells.hpp"
#include "bench/show/report/assets.hpp"
#include "bench/show/report/escape.hpp"
#include "bench/show/text/figures.hpp"
#include "core/base/byte_text.hpp"
#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/output_json.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kLongestKey = 100;  // value of a configuration's key

struct Metric {
  const char* what;
  std::string (*print)(double);
  double (*of)(const MemoryReport&, const StepTime&);
  bool timed;  // other programs on the machine are part of it
};

const Metric kMetrics[] = {
    {"step time", readable_time, [](const MemoryReport&, const StepTime& time) { return time.step.value; },
     true},
    {"peak memory", readable_bytes,
     [](const MemoryReport& memory, const StepTime&) { return static_cast<double>(memory.peak.value); },
     false},
};

/// Reduction of the prediction, as a fraction of the old one; 0 without predictions.
double predicted_gain(const Record& base, const Record& now, const Metric& metric) {
  if (!base.prediction || !now.prediction) return 0;
  const double before = metric.of(base.prediction->memory, base.prediction->time);
  const double after = metric.of(now.prediction->memory, now.prediction->time);
  return before > 0 && std::isfinite(after) ? 1 - after / before : 0;
}

/// Slowdown of the machine at the time of the new record, by its probes; 1 when they say nothing.
double slower_machine(const Record& base, const Record& now) {
  const auto factor = [](const Record& record) {
    const bool known = record.probed && record.prediction && record.prediction->time.step.value > 0;
    return known ? record.probed->time.step / record.prediction->time.step : std::nan("");
  };
  const double ratio = factor(now) / factor(base);
  return std::isfinite(ratio) && ratio > 0 ? ratio : 1;
}

/// True if a difference of the step time exceeds the noise of both. The intervals of the medians lie apart,
/// and the difference without the machine's own speed is above the tolerance, too.
bool beyond_noise(const Record& base, const Record& now, double after_by_before, double tolerance) {
  if (base.disturbed() || now.disturbed()) return false;
  const MeasurementReport& before = *base.measurement;
  const MeasurementReport& after = *now.measurement;
  if (!before.steps.empty() && !after.steps.empty()) {
    const StepInterval a = interval_of(before.steps);
    const StepInterval b = interval_of(after.steps);
    if (a.low <= b.high && b.low <= a.high) return false;
  }
  const double at_same_speed = after_by_before / slower_machine(base, now);
  return std::abs(at_same_speed - 1) > tolerance && (at_same_speed > 1) == (after_by_before > 1);
}

void compare_metric(const Record& base, const Record& now, const Metric& metric, double tolerance,
                    Regression& regression) {
  const double before = metric.of(base.measurement->memory, base.measurement->time);
  const double after = metric.of(now.measurement->memory, now.measurement->time);
  if (!(before > 0) || !std::isfinite(after)) return;
  const double relative = after / before - 1;
  if (std::abs(relative) <= tolerance) return;
  if (metric.timed && !beyond_noise(base, now, after / before, tolerance)) {
    ++regression.within_noise;
    return;
  }
  const bool explained = predicted_gain(base, now, metric) >= -relative - tolerance;
  const Change::Kind kind = relative > 0 ? Change::Kind::loss
                            : explained  ? Change::Kind::explained_gain
                                         : Change::Kind::unexplained_gain;
  regression.changes.push_back(
      {kind, now.id, metric.what,
       fmt::format("{} -> {} ({})", metric.print(before), metric.print(after), readable_percent(relative)),
       before, after});
}

const char* word_of(Change::Kind kind) {
  switch (kind) {
    case Change::Kind::loss:
      return "LOSS";
    case Change::Kind::unexplained_gain:
      return "gain, not predicted";
    default:
      return "gain, as predicted";
  }
}

/// Every fact of the machines of these records, each with its values.
std::map<std::string, std::set<std::string>> facts_of(const std::vector<Record>& records) {
  std::map<std::string, std::set<std::string>> facts;
  for (const Record& record : records) {
    const MachineReport& machine = record.machine;
    facts["host"].insert(machine.host);
    facts["cpu"].insert(machine.cpu);
    facts["gpu"].insert(machine.gpu);
    for (const auto& [name, version] : machine.versions) facts["versions." + name].insert(version);
    for (const auto& [name, value] : machine.environment) facts["environment." + name].insert(value);
  }
  return facts;
}

std::vector<MachineChange> machine_changes(const std::vector<Record>& base, const std::vector<Record>& now) {
  const auto before = facts_of(base);
  auto after = facts_of(now);
  for (const auto& [key, values] : before) after[key];  // also what is not there any more
  std::vector<MachineChange> changes;
  for (const auto& [key, values] : after) {
    const auto found = before.find(key);
    const std::set<std::string> old = found == before.end() ? std::set<std::string>{} : found->second;
    if (old == values) continue;
    changes.push_back({key, printable(fmt::format("{}", fmt::join(old, ", ")), 200),
                       printable(fmt::format("{}", fmt::join(values, ", ")), 200)});
  }
  return changes;
}

int count_of_kind(const Regression& regression, Change::Kind kind) {
  return static_cast<int>(std::count_if(regression.changes.begin(), regression.changes.end(),
                                        [kind](const Change& change) { return change.kind == kind; }));
}

/// "1 cell", "2 cells".
std::string cells_text(int count) {
  return fmt::format("{} cell{}", count, count == 1 ? "" : "s");
}

std::string summary_of_changes(const Regression& regression, double tolerance) {
  std::string text = fmt::format(
      "{} compared, tolerance {:.4g} %: {} worse, {} better without a reason in the prediction",
      cells_text(regression.compared), 100 * tolerance, count_of_kind(regression, Change::Kind::loss),
      count_of_kind(regression, Change::Kind::unexplained_gain));
  if (regression.within_noise > 0)
    text += fmt::format("; {} more within machine noise", regression.within_noise);
  if (regression.not_comparable > 0)
    text += fmt::format("; {} not comparable: another configuration", cells_text(regression.not_comparable));
  if (regression.new_cells > 0) text += fmt::format("; {} new", cells_text(regression.new_cells));
  return text;
}

int place_of(Change::Kind kind) {
  return kind == Change::Kind::loss ? 0 : kind == Change::Kind::unexplained_gain ? 1 : 2;
}

}  // namespace

bool Regression::any_loss() const {
  return std::any_of(changes.begin(), changes.end(),
                     [](const Change& change) { return change.kind == Change::Kind::loss; });
}

Regression compare_records(const std::vector<Record>& base, const std::vector<Record>& now,
                           double tolerance) {
  Regression regression;
  const MatchedCells matched = match_cells(base, now);
  for (const BaseChange& each : matched.changes)
    regression.configuration.push_back(
        {each.key, printable(each.before, kLongestKey), printable(each.after, kLongestKey)});
  for (const auto& [old, found] : matched.pairs) {
    const Record& before = *old;
    if (found == nullptr) {
      if (before.status == Status::ok)
        regression.changes.push_back({Change::Kind::loss, before.id, "missing", "was ok, now missing"});
      continue;
    }
    const Record& after = *found;
    if (before.id != after.id && !matched.comparable()) {
      ++regression.not_comparable;
      continue;
    }
    if (before.status == Status::ok && after.status != Status::ok) {
      regression.changes.push_back(
          {Change::Kind::loss, before.id, "status",
           fmt::format("ok -> {}: {}", name_of(after.status), printable(after.reason, 200))});
    } else if (before.status != Status::ok && after.status == Status::ok) {
      regression.changes.push_back({Change::Kind::unexplained_gain, before.id, "status",
                                    fmt::format("{} -> ok", name_of(before.status))});
    }
    if (!before.measurement || !after.measurement) continue;
    ++regression.compared;
    for (const Metric& metric : kMetrics) compare_metric(before, after, metric, tolerance, regression);
  }
  regression.new_cells = matched.only_new;
  regression.machine = machine_changes(base, now);
  std::stable_sort(regression.changes.begin(), regression.changes.end(),
                   [](const Change& a, const Change& b) { return place_of(a.kind) < place_of(b.kind); });
  return regression;
}

std::string to_text(const Regression& regression, double tolerance) {
  std::string text;
  for (const Change& change : regression.changes) {
    text += fmt::format("{:<20} {:<12} {}: {}\n", word_of(change.kind), change.what,
                        printable(change.id, 100), change.text);
  }
  for (const MachineChange& change : regression.configuration)
    text += fmt::format("configuration: {}: {} -> {}\n", change.key, change.before, change.after);
  for (const MachineChange& change : regression.machine) {
    text += fmt::format("machine: {}: {} -> {}\n", change.key, change.before.empty() ? "none" : change.before,
                        change.after.empty() ? "none" : change.after);
  }
  return text + summary_of_changes(regression, tolerance) + "\n";
}

std::string to_json(const Regression& regression, double tolerance) {
  constexpr const char* kKinds[] = {"loss", "explained_gain", "unexplained_gain"};
  OrderedJson json = {{"tolerance", tolerance},
                      {"compared", regression.compared},
                      {"losses", count_of_kind(regression, Change::Kind::loss)},
                      {"unexplained_gains", count_of_kind(regression, Change::Kind::unexplained_gain)},
                      {"within_noise", regression.within_noise},
                      {"new_cells", regression.new_cells},
                      {"not_comparable", regression.not_comparable},
                      {"machine", OrderedJson::array()},
                      {"configuration", OrderedJson::array()},
                      {"changes", OrderedJson::array()}};
  for (const MachineChange& change : regression.machine)
    json["machine"].push_back({{"key", change.key}, {"before", change.before}, {"after", change.after}});
  for (const MachineChange& change : regression.configuration)
    json["configuration"].push_back(
        {{"key", change.key}, {"before", change.before}, {"after", change.after}});
  for (const Change& change : regression.changes) {
    OrderedJson row = {{"kind", kKinds[static_cast<std::size_t>(change.kind)]},
                       {"id", change.id},
                       {"what", change.what},
                       {"text", change.text}};
    if (change.before > 0) row.update({{"before", change.before}, {"after", change.after}});
    json["changes"].push_back(std::move(row));
  }
  return output_json(json, 2) + "\n";
}

std::string to_html(const Regression& regression, double tolerance, const std::string& title) {
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta "
      "http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{}'\"><meta "
      "name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" "
      "content=\"light dark\"><title>{} \xc2\xb7 "
      "plumbline</title><style>{}</style></head>\n<body>\n<header><div>"
      "<p class=\"brand\">plumbline</p><h1>{}</h1></div></header>\n<main>\n",
      base64(report_style().sha256), html_escaped(title), report_style().text, html_escaped(title));
  html += fmt::format("<section><h2>Summary</h2><p>{}.</p></section>\n",
                      html_escaped(summary_of_changes(regression, tolerance)));
  const auto table = [&](const char* heading, std::initializer_list<const char*> titles,
                         const std::string& rows) {
    if (rows.empty()) return;
    html += fmt::format("<section><h2>{}</h2><div class=\"scroll\"><table><thead><tr>", heading);
    for (const char* each : titles) html += fmt::format("<th scope=\"col\">{}</th>", each);
    html += "</tr></thead><tbody>" + rows + "</tbody></table></div></section>\n";
  };
  std::string rows;
  for (const Change& change : regression.changes) {
    rows += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>", word_of(change.kind),
                        change.what, html_escaped(printable(change.id, 200)), html_escaped(change.text));
  }
  table("Changes", {"change", "quantity", "cell", "before and after"}, rows);
  rows.clear();
  for (const MachineChange& change : regression.configuration) {
    rows += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td></tr>", html_escaped(change.key),
                        html_escaped(change.before), html_escaped(change.after));
  }
  table("Configuration", {"", "before", "after"}, rows);
  rows.clear();
  for (const MachineChange& change : regression.machine) {
    rows += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td></tr>", html_escaped(change.key),
                        html_escaped(change.before), html_escaped(change.after));
  }
  table("Machine and versions", {"", "before", "after"}, rows);
  return html + "</main></body></html>\n";
}

double parse_tolerance(std::string_view text) {
  std::string_view number = text;
  const auto drop_blanks = [&] {
    while (!number.empty() && number.back() == ' ') number.remove_suffix(1);
  };
  drop_blanks();
  const bool percent = !number.empty() && number.back() == '%';
  if (percent) number.remove_suffix(1);
  drop_blanks();
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (percent) value /= 100;
  const bool unclear = !percent && value >= 1;  // 1 percent, or all?
  if (unclear || error != std::errc{} || end != number.data() + number.size() ||
      !(value >= 0 && value <= 1)) {
    throw InputError(
        fmt::format("--tolerance: found \"{}\", expected a share from 0% to 100% with its sign, such as 5%",
                    printable(text)));
  }
  return value;
}

}  // namespace plumbline

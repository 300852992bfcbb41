#include "bench/commands/compatibility_page.hpp"

#include <fmt/format.h>

#include <map>
#include <vector>

#include "analysis/predict/prediction_rows.hpp"
#include "bench/show/text/wrap.hpp"
#include "core/config/compatibility.hpp"

namespace plumbline {
namespace {

struct Column {
  const char* name;
  unsigned refusers;  // bits of a row, any of which marks it
};
// Searches refuse what predictions refuse.
constexpr Column kColumns[] = {{"cpu", kOwnStep | kRunCpu},
                               {"cuda", kOwnStep | kRunCuda},
                               {"emulated", kOwnStep | kRunEmulated},
                               {"predict", kOwnStep | kPredictOwn},
                               {"other", kOtherSoftware | kPredictOther}};

struct Line {
  std::string marks;
  std::string text;
};

std::string marks_of(unsigned refusers) {
  std::string marks;
  for (const Column& column : kColumns)
    marks += fmt::format("{:^{}} ", (refusers & column.refusers) != 0 ? "x" : ".",
                         std::string_view(column.name).size());
  return marks;
}

std::string name_of(const Feature& feature) {
  return feature.key.empty() ? std::string(feature.values)
                             : fmt::format("{} {}", feature.key, feature.values);
}

std::string text_of(const CompatibilityRow& row) {
  if (row.relation == Relation::limits) return fmt::format("expects {}", row.other.values);
  return fmt::format("{} {} {}{}", row.feature.values, name_of(row.relation), name_of(row.other),
                     row.why.empty() ? "" : fmt::format(" ({})", row.why));
}

}  // namespace

std::string compatibility_page(const TextStyle& style) {
  std::map<std::string_view, std::vector<Line>> lines;
  for (const CompatibilityRow& row : compatibility_rows())
    lines[row.key].push_back({marks_of(row.refusers), text_of(row)});
  for (const PredictionRow& row : prediction_rows()) {
    const unsigned refusers = row.searches ? kPredictOther : kPredictOwn | kPredictOther;
    lines[row.key].push_back({marks_of(refusers), fmt::format("{} needs {}{}", row.values, row.needed,
                                                              row.searches ? " (search alone)" : "")});
  }
  std::string header;
  for (const Column& column : kColumns) header += fmt::format("{} ", column.name);
  std::string text = wrapped(
      "Compatibility by key. x: refused with exit code 2 by runs on backend cpu, cuda and emulated, by "
      "predictions and searches of plumbline's own step, and by those of other software.",
      style.width, 0);
  text += "\n" + header + "\n";
  for (const auto& [key, rows] : lines) {
    text += emphasized(std::string(key), style) + "\n";
    for (const Line& line : rows) {
      std::string words = wrapped(line.text, style.width, header.size() + 1);
      text += words.replace(0, line.marks.size(), line.marks);
    }
  }
  return text;
}

}  // namespace plumbline

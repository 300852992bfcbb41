#include "bench/show/views/comparison_sheet.hpp"

#include <fmt/format.h>

#include <cmath>

namespace plumbline {
namespace {

std::string difference(double predicted, double measured, bool relative) {
  if (std::isnan(measured) || std::isnan(predicted)) return "-";
  if (!relative) return fmt::format("{:+.4f}", predicted - measured);
  return measured == 0 ? "-" : fmt::format("{:+.1f} %", 100 * (predicted / measured - 1));
}

}  // namespace

ComparisonSheet::ComparisonSheet(const Record& record) : record_(record) {
  text_ += fmt::format("{:<34}", "");
  if (record.prediction && record.prediction->times_guessed) width_ = 20;
  if (record.prediction) text_ += fmt::format("{:>{}}", "predicted", width_);
  if (record.measurement) text_ += fmt::format("{:>14}", "measured");
  if (both()) text_ += fmt::format("{:>12}", "difference");
  text_ += '\n';
}

void ComparisonSheet::row(const std::string& name, const Value& value, Print print, bool relative) {
  double predicted = 0;
  double measured = 0;
  std::string line = fmt::format("{:<34}", name);
  if (record_.prediction) {
    const PredictionReport& p = *record_.prediction;
    predicted = value(p.memory, p.time, p.throughput);
    line += predicted_cell(print(predicted));
  }
  if (record_.measurement) {
    const MeasurementReport& m = *record_.measurement;
    measured = value(m.memory, m.time, m.throughput);
    line += fmt::format("{:>14}", std::isnan(measured) ? "-" : print(measured));
  }
  if (std::isnan(predicted) && std::isnan(measured)) return;
  if (predicted == 0 && measured == 0) return;  // nothing of this kind in this configuration
  if (both()) line += fmt::format("{:>12}", difference(predicted, measured, relative));
  text_ += line + '\n';
}

void ComparisonSheet::pair(const std::string& name, double predicted, double measured, Print print) {
  if (std::isnan(predicted) && std::isnan(measured)) return;
  if (predicted == 0 && !(measured > 0)) return;
  const auto cell = [&](double value) { return std::isnan(value) ? std::string("-") : print(value); };
  std::string line = fmt::format("{:<34}", name);
  if (record_.prediction) line += predicted_cell(cell(predicted));
  if (record_.measurement) line += fmt::format("{:>14}", cell(measured));
  if (both() && !std::isnan(predicted)) line += fmt::format("{:>12}", difference(predicted, measured, true));
  text_ += line + '\n';
}

std::string ComparisonSheet::predicted_cell(const std::string& value) const {
  return fmt::format("{:>{}}", guesses_ && value != "-" ? "guess " + value : value, width_);
}

}  // namespace plumbline

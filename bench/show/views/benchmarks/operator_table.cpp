#include "bench/show/views/benchmarks/operator_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/show/text/csv.hpp"
#include "core/base/output_json.hpp"
#include "core/base/statistics.hpp"

namespace plumbline {
namespace {

constexpr double kInMicroseconds = 1e6;
constexpr double kGiga = 1e-9;

/// Operator and pass: "gemm weight_gradient", "rmsnorm_forward".
std::string call_text(const BenchedShape& shape) {
  if (shape.kind == BenchedOperator::memory_bound) return shape.name;
  if (shape.pass == BenchedPass::forward) return std::string(name_of(shape.kind));
  return fmt::format("{} {}", name_of(shape.kind), name_of(shape.pass));
}

/// Time, half of its interval, predicted time, difference.
std::string time_cells(const BenchedTime& time) {
  const double half = time.seconds > 0 ? 50 * (time.high_s - time.low_s) / time.seconds : 0;
  std::string cells =
      fmt::format("  {:>10.2f}{} {:>5.1f}", time.seconds * kInMicroseconds, time.slow ? "!" : " ", half);
  if (!time.predicted_s) return cells + fmt::format("  {:>10}  {:>7}", "-", "-");
  return cells +
         fmt::format("  {:>10.2f}  {:>+7.1f}", *time.predicted_s * kInMicroseconds, 100 * time.difference());
}

/// 10^9 FLOPs per second of products, bytes of others.
double rate(const OperatorRow& row) {
  return (row.flops > 0 ? row.flops : row.bytes) / row.batched.seconds * kGiga;
}

constexpr const char* kOperatorCsvHead =
    "operator,name,label,pass,type,shape,count,flops,bytes,isolated_us,isolated_low_us,isolated_high_us,"
    "isolated_predicted_us,isolated_difference,isolated_throttled,batched_us,batched_low_us,batched_high_us,"
    "batched_predicted_us,batched_difference,batched_throttled,batched_clock,basis\n";

std::string csv_times(const BenchedTime& time) {
  std::string text = fmt::format(",{:.6g},{:.6g},{:.6g},", time.seconds * kInMicroseconds,
                                 time.low_s * kInMicroseconds, time.high_s * kInMicroseconds);
  if (!time.predicted_s) return text + fmt::format(",,{}", time.throttled);
  return text + fmt::format("{:.6g},{:.4g},{}", *time.predicted_s * kInMicroseconds, time.difference(),
                            time.throttled);
}

std::string csv_line(const OperatorRow& row) {
  const BenchedShape& shape = row.shape;
  return fmt::format("{},{},{},{},{},{},{},{:.6g},{:.6g}{}{},{:.4g},{}\n", name_of(shape.kind),
                     csv_field(shape.name), csv_field(shape.label), name_of(shape.pass), name_of(shape.type),
                     csv_field(shape_text(shape)), shape.count, row.flops, row.bytes, csv_times(row.isolated),
                     csv_times(row.batched), row.batched.clock, row.basis);
}

std::string median_difference(const std::vector<OperatorRow>& rows, BenchedTime OperatorRow::*part) {
  std::vector<double> errors;
  for (const OperatorRow& row : rows) {
    if ((row.*part).predicted_s) errors.push_back(std::abs((row.*part).difference()));
  }
  return errors.empty() ? "-" : fmt::format("{:.1f} %", 100 * median(errors));
}

}  // namespace

std::string OperatorTable::title(const OperatorRow& row) const {
  const std::string unit = row.flops > 0 ? "GFLOP/s" : "GB/s";
  return fmt::format(
      "# {}, backend {}\n"
      "#{:>76}  {:^36}  {:^36}\n"
      "# {:<25} {:<4} {:<42}  {:>10}  {:>5}  {:>10}  {:>7}  {:>10}  {:>5}  {:>10}  {:>7}  {:>9}  {:>6}\n"
      "# {:<25} {:<4} {:<42}  {:>10}  {:>5}  {:>10}  {:>7}  {:>10}  {:>5}  {:>10}  {:>7}  {:>9}  {:>6}\n",
      name_of(row.shape.kind), backend_, "", "isolated: operands in memory", "batched: one after another",
      "call", "type", "shape", "time", "+-", "predicted", "diff", "time", "+-", "predicted", "diff", "rate",
      "clock", "", "", "", "(us)", "(%)", "(us)", "(%)", "(us)", "(%)", "(us)", "(%)", unit, "(%)");
}

std::string OperatorTable::row(const OperatorRow& row) {
  const bool first = rows_.empty();
  const bool new_kind = first || rows_.back().shape.kind != row.shape.kind;
  std::string text;
  switch (format_) {
    case OperatorFormat::json:
      text = (first ? "[\n " : ",\n ") + output_json(to_json(row), -1);
      break;
    case OperatorFormat::csv:
      text = (first ? kOperatorCsvHead : "") + csv_line(row);
      break;
    case OperatorFormat::table: {
      const std::string clock = row.batched.clock > 0 ? fmt::format("{:.0f}", 100 * row.batched.clock) : "-";
      text = (new_kind ? title(row) : "") + fmt::format("  {:<25} {:<4} {:<42}{}{}  {:>9.1f}  {:>6}\n",
                                                        call_text(row.shape), name_of(row.shape.type),
                                                        shape_text(row.shape), time_cells(row.isolated),
                                                        time_cells(row.batched), rate(row), clock);
      break;
    }
  }
  rows_.push_back(row);
  return text;
}

std::string OperatorTable::end() const {
  if (format_ == OperatorFormat::json) return rows_.empty() ? "[]\n" : "\n]\n";
  if (format_ == OperatorFormat::csv) return "";
  int throttled = 0, slow = 0;
  for (const OperatorRow& row : rows_) {
    throttled += row.isolated.throttled + row.batched.throttled;
    slow += static_cast<int>(row.isolated.slow) + static_cast<int>(row.batched.slow);
  }
  std::string text = fmt::format("# Median difference : isolated {}, batched {}\n",
                                 median_difference(rows_, &OperatorRow::isolated),
                                 median_difference(rows_, &OperatorRow::batched));
  text += fmt::format("# Throttled samples : {} left out{}\n", throttled,
                      slow > 0 ? fmt::format("; {} times with nothing else are marked !", slow) : "");
  return text;
}

}  // namespace plumbline

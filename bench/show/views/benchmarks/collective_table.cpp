#include "bench/show/views/benchmarks/collective_table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bench/show/text/csv.hpp"
#include "core/base/output_json.hpp"

namespace plumbline {
namespace {

constexpr double kMicroseconds = 1e6;

std::string prediction_cells(const CollectiveRow& row) {
  if (!row.predicted_s) return fmt::format("  {:>10}  {:>6}  {:>8}", "-", "-", "-");
  const std::string drift = row.predicted_drift ? fmt::format("{:.1f}", 100 * *row.predicted_drift) : "-";
  return fmt::format("  {:>10.2f}  {:>6}  {:>+8.1f}", *row.predicted_s * kMicroseconds, drift,
                     100 * row.difference());
}

/// nccl-tests' first five columns.
std::string shape_cells(const CollectiveRow& row) {
  return fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}", row.size, row.count, row.type,
                     kind_of(row.call).reduces ? "sum" : "none", row.root);
}

/// nccl-tests' columns of a place; N/A without one.
std::string timed_cells(const CollectiveRow* row) {
  if (row == nullptr) return fmt::format("  {:>7}  {:>6}  {:>6}  {:>5}", "N/A", "N/A", "N/A", "N/A");
  const double time = row->seconds * kMicroseconds;
  const int digits = time >= 10'000 ? 0 : time >= 100 ? 1 : 2;
  return fmt::format("  {:>7.{}f}  {:>6.2f}  {:>6.2f}  {:>5}", time, digits, row->algorithm_gb(),
                     row->bus_gb(), row->wrong);
}

std::string table_line(const CollectiveRow& row, bool narrow) {
  return fmt::format("{}  {:>10.2f}  {:>8.3f}  {:>8.3f}  {:>6}{}  {:>8.1f}\n",
                     narrow ? fmt::format("{:>12}", row.size) : shape_cells(row), row.seconds * kMicroseconds,
                     row.algorithm_gb(), row.bus_gb(), row.wrong, prediction_cells(row),
                     row.seconds > 0 ? 50 * (row.high_s - row.low_s) / row.seconds : 0);
}

std::string osu_line(const CollectiveRow& row) {
  if (row.call == BenchedCall::latency) {
    return fmt::format("{:<10}{:>18.2f}{}\n", row.size, row.seconds * kMicroseconds, prediction_cells(row));
  }
  return fmt::format("{:<10}{:>18.2f}\n", row.size, row.algorithm_gb() * 1e3);
}

/// rccl-tests' columns (its Reporter), then ours.
constexpr const char* kCsvHead =
    "collective,ranks,rankspernode,gpusperrank,size,type,redop,inplace,time,algbw,busbw,#wrong,"
    "count,root,group,groups,calls,time_low,time_high,predicted,difference,predicted_low,"
    "predicted_high\n";

std::string csv_line(const CollectiveRow& row) {
  const BenchedKind& kind = kind_of(row.call);
  std::string line = fmt::format(
      "{},{},{},1,{},{},{},{},{:.6g},{:.6g},{:.6g},{},{},{},{},{},{},{:.6g},{:.6g},", kind.name, row.ranks,
      row.ranks_per_node, row.size, row.type, kind.reduces ? "sum" : "none", row.in_place ? 1 : 0,
      row.seconds * kMicroseconds, row.algorithm_gb(), row.bus_gb(), row.wrong, row.count, row.root,
      csv_field(row.group), row.groups, row.calls, row.low_s * kMicroseconds, row.high_s * kMicroseconds);
  if (row.predicted_s) {
    line += fmt::format("{:.6g},{:.4g},", *row.predicted_s * kMicroseconds, row.difference());
  } else {
    line += ",,";
  }
  if (row.predicted_s && row.predicted_drift) {
    line += fmt::format("{:.6g},{:.6g}", row.predicted_low_s() * kMicroseconds,
                        row.predicted_high_s() * kMicroseconds);
  } else {
    line += ",";
  }
  return line + "\n";
}

constexpr const char* kNcclHead =
    "#\n"
    "#                                                              out-of-place                       "
    "in-place          \n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   "
    "busbw #wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  "
    "(GB/s)       \n";

bool same_benchmark(const CollectiveRow& a, const CollectiveRow& b) {
  return a.call == b.call;
}

}  // namespace

std::string CollectiveTable::title(const CollectiveRow& row) const {
  const BenchedKind& kind = kind_of(row.call);
  const std::string groups = row.groups > 1 ? fmt::format(", {} groups at once", row.groups) : "";
  if (format_ == BenchFormat::table && kind.is_osu()) {
    const bool latency = row.call == BenchedCall::latency;
    return fmt::format("# plumbline MPI {} Test, OSU's form: {} {} ranks of the {} group{}, backend {}\n{}\n",
                       latency ? "Latency" : "Bandwidth", kind.name, row.ranks, row.group, groups, backend_,
                       latency ? fmt::format("{:<10}{:>18}  {:>10}  {:>6}  {:>8}", "# Size", "Latency (us)",
                                             "predicted", "+- (%)", "diff (%)")
                               : fmt::format("{:<10}{:>18}", "# Size", "Bandwidth (MB/s)"));
  }
  std::string text = fmt::format("# {}, {}, {} ranks of the {} group{}, backend {}", kind.name, row.type,
                                 row.ranks, row.group, groups, backend_);
  if (format_ == BenchFormat::nccl) return text + "\n" + kNcclHead;
  const auto shape = [&](const char* size, const char* count, const char* type, const char* op,
                         const char* root) {
    return narrow_ ? fmt::format("#{:>11}", size)
                   : fmt::format("#{:>11}  {:>12}  {:>8}  {:>6}  {:>6}", size, count, type, op, root);
  };
  constexpr const char* kTimed = "{}  {:>10}  {:>8}  {:>8}  {:>6}  {:>10}  {:>6}  {:>8}  {:>8}\n";
  return text + fmt::format(", {}\n", row.in_place ? "in-place" : "out-of-place") +
         fmt::format(kTimed, shape("size", "count", "type", "redop", "root"), "time", "algbw", "busbw",
                     "#wrong", "predicted", "+-", "diff", "+-") +
         fmt::format(kTimed, shape("(B)", "(elements)", "", "", ""), "(us)", "(GB/s)", "(GB/s)", "", "(us)",
                     "(%)", "(%)", "(%)");
}

std::string CollectiveTable::held_lines() {
  std::string text;
  if (held_.empty()) return text;
  text = title(held_.front());
  for (const CollectiveRow& row : held_) {
    const auto at_place = [&](bool in_place) -> const CollectiveRow* {
      const auto found = std::find_if(held_.begin(), held_.end(), [&](const CollectiveRow& each) {
        return each.in_place == in_place && each.size == row.size;
      });
      return found == held_.end() ? nullptr : &*found;
    };
    const bool second = row.in_place && at_place(false) != nullptr;
    if (!second) text += shape_cells(row) + timed_cells(at_place(false)) + timed_cells(at_place(true)) + "\n";
  }
  held_.clear();
  return text;
}

std::string CollectiveTable::row(const CollectiveRow& row) {
  const bool first = rows_.empty();
  const bool new_block = first || !same_benchmark(rows_.back(), row) || rows_.back().in_place != row.in_place;
  std::string text;
  switch (format_) {
    case BenchFormat::json:
      text = (first ? "[\n " : ",\n ") + output_json(to_json(row), -1);
      break;
    case BenchFormat::csv:
      text = (first ? kCsvHead : "") + csv_line(row);
      break;
    case BenchFormat::nccl:
      if (!held_.empty() && !same_benchmark(held_.back(), row)) text = held_lines();
      held_.push_back(row);
      break;
    case BenchFormat::table:
      text = (new_block ? title(row) : "") +
             (kind_of(row.call).is_osu() ? osu_line(row) : table_line(row, narrow_));
      break;
  }
  rows_.push_back(row);
  return text;
}

std::string CollectiveTable::end() {
  if (format_ == BenchFormat::json) return rows_.empty() ? "[]\n" : "\n]\n";
  if (format_ == BenchFormat::csv) return "";
  std::string text = held_lines();
  std::int64_t wrong = 0;
  double bus = 0;
  int counted = 0;
  for (const CollectiveRow& row : rows_) {
    wrong += row.wrong;
    if (kind_of(row.call).is_osu()) continue;
    bus += row.bus_gb();
    ++counted;
  }
  text += fmt::format("# Out of bounds values : {} {}\n", wrong, wrong == 0 ? "OK" : "FAILED");
  if (counted > 0) text += fmt::format("# Avg bus bandwidth    : {:.6g}\n", bus / counted);
  return text;
}

}  // namespace plumbline

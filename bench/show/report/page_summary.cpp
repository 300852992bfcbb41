// The tiles at the top of the page.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "bench/show/report/page_parts.hpp"
#include "bench/show/text/cell_columns.hpp"
#include "bench/show/text/record_tables.hpp"
#include "core/base/byte_text.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

struct Worst {
  std::size_t cell = 0;
  double error = 0;
};

using ErrorOf = std::function<double(const ErrorReport&)>;

/// The one of `size`, which the summary has found among those that count.
std::optional<Worst> worst_of(const std::vector<Record>& records, const ErrorOf& error_of, double size) {
  std::optional<Worst> worst;
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (!records[i].error) continue;
    const double error = error_of(*records[i].error);
    if (std::isnan(error) || std::abs(error) > size) continue;
    if (!worst || std::abs(error) > std::abs(worst->error)) worst = Worst{i, error};
  }
  return worst;
}

std::string tile(const std::string& label, const std::string& figure, const std::string& below) {
  return fmt::format("<div class=\"tile\"><dt>{}</dt><dd><b>{}</b><span>{}</span></dd></div>\n", label,
                     figure, below);
}

std::string error_tile(const std::vector<Record>& records, const std::string& label, const ErrorOf& error_of,
                       const std::optional<ErrorSummary>& summary, bool relative,
                       const std::vector<std::size_t>& numbers) {
  const auto worst = summary ? worst_of(records, error_of, summary->worst) : std::nullopt;
  if (!worst) return tile(label, "\xe2\x80\x93", "no measurement");
  const auto text = [&](double error, bool sign) {
    const char* format = relative ? (sign ? "{:+.2f} %" : "{:.2f} %") : (sign ? "{:+.3f}" : "{:.3f}");
    return fmt::format(fmt::runtime(format), relative ? 100 * error : error);
  };
  const std::size_t number = numbers.empty() ? worst->cell + 1 : numbers[worst->cell];
  const std::string where =
      number > 0 ? fmt::format(" in <a href=\"#cell-{0}\">cell {0}</a>", number) : std::string();
  return tile(label, text(summary->median, false),
              fmt::format("median; worst {}{}", text(worst->error, true), where));
}

/// "in cell 3", with a link.
std::string in_cell(std::size_t cell, const std::vector<std::size_t>& numbers) {
  const std::size_t number = numbers.empty() ? cell + 1 : numbers[cell];
  return number > 0 ? fmt::format("in <a href=\"#cell-{0}\">cell {0}</a>", number) : std::string();
}

/// In place of errors if nothing was measured: the cells that fit, and the best of them.
std::string prediction_tiles(const std::vector<Record>& records, const std::vector<std::size_t>& numbers) {
  std::string html;
  std::size_t predicted = 0, fitting = 0;
  std::optional<std::size_t> fastest, smallest;
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (!records[i].prediction) continue;
    const PredictionReport& prediction = *records[i].prediction;
    ++predicted;
    if (!prediction.fits) continue;
    ++fitting;
    const auto of = [&](std::size_t cell) -> const PredictionReport& { return *records[cell].prediction; };
    if (!fastest || prediction.throughput.tokens_per_s_per_gpu > of(*fastest).throughput.tokens_per_s_per_gpu)
      fastest = i;
    if (!smallest || prediction.memory.peak < of(*smallest).memory.peak) smallest = i;
  }
  html += tile("Predicted to fit", fmt::format("{}", fitting),
               fmt::format("of {} predicted cells; no measurement", predicted));
  if (fitting == 0) return html;
  const Throughput& best = records[*fastest].prediction->throughput;
  const std::string where = in_cell(*fastest, numbers);
  html += tile("Fastest that fits, tokens/s/GPU", fmt::format("{:.1f}", best.tokens_per_s_per_gpu), where);
  html += tile("Its TFLOP/s/GPU", fmt::format("{:.1f}", best.model_tflops_per_gpu),
               best.mfu > 0 ? fmt::format("MFU {:.1f} %", 100 * best.mfu) : "");
  return html + tile("Lowest peak memory",
                     readable_bytes(static_cast<double>(records[*smallest].prediction->memory.peak.value)),
                     in_cell(*smallest, numbers));
}

}  // namespace

std::string label_of(const Record& record, const std::vector<std::string>& keys) {
  std::string label;
  for (const std::string& key : keys) {
    const std::string value = value_of(record, key);
    if (value == "none" || value == "-") continue;
    label += fmt::format("{}{} {}", label.empty() ? "" : ", ", title_of(key), printable(value, 24));
  }
  return label;
}

std::string summary_html(const std::vector<Record>& records, const std::vector<std::size_t>& numbers) {
  const Summary summary = summarize(records);
  const auto count = [&](Status status) { return summary.by_status[static_cast<std::size_t>(status)]; };
  std::string others;
  for (const Status status :
       {Status::oom, Status::invalid, Status::unsupported, Status::failed, Status::timeout}) {
    if (count(status) == 0) continue;
    others += fmt::format("{}{} {}", others.empty() ? "" : ", ", count(status), name_of(status));
  }
  const auto measured = std::count_if(records.begin(), records.end(),
                                      [](const Record& r) { return r.measurement.has_value(); });
  std::string html = "<dl class=\"tiles\">";
  if (summary.disturbed > 0)
    others += fmt::format("{}{} disturbed", others.empty() ? "" : ", ", summary.disturbed);
  html += tile("Cells", fmt::format("{}", summary.cells), others.empty() ? "all ok" : others);
  if (measured == 0 && !records.empty()) return html + prediction_tiles(records, numbers) + "</dl>";
  html += tile("Measured", fmt::format("{}", measured), fmt::format("of {} cells", summary.cells));
  const bool probed = summary.calibrated_step_time.has_value();
  const std::string judged = speed_suffix(probed ? AtSpeed::current : AtSpeed::calibrated, records);
  html += error_tile(
      records, fmt::format("Step time{}, |error|", judged),
      [](const ErrorReport& e) { return e.judged_step_time(); }, summary.step_time, true, numbers);
  if (probed) {
    html += error_tile(
        records, fmt::format("Step time{}, |error|", speed_suffix(AtSpeed::calibrated, records)),
        [](const ErrorReport& e) { return e.step_time; }, summary.calibrated_step_time, true, numbers);
  }
  html += error_tile(
      records, "Peak memory, |error|", [](const ErrorReport& e) { return e.peak_memory; },
      summary.peak_memory, true, numbers);
  html += error_tile(
      records, fmt::format("Bubble fraction{}, |difference|", judged),
      [](const ErrorReport& e) { return e.judged_bubble_fraction(); }, summary.bubble_fraction, false,
      numbers);
  return html + "</dl>";
}

}  // namespace plumbline

// The table of cells, and the units of the page.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>

#include "bench/report/escape.hpp"
#include "bench/report/page_parts.hpp"
#include "bench/text/record_tables.hpp"
#include "core/base/byte_text.hpp"
#include "core/base/statistics.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kLongestValue = 32;
constexpr std::size_t kMostChoices = 12;

using Figure = std::function<std::optional<double>(const Record&)>;

struct Column {
  std::string group;  // header above several columns
  std::string title;
  Figure figure;
  Scale scale;
  bool is_error = false;
};

/// Of predictions and measurements; 0 where there are none.
template <class Get>
double typical_of(const std::vector<Record>& records, Get get) {
  std::vector<double> values;
  for (const Record& record : records) {
    if (record.prediction) values.push_back(get(*record.prediction));
    if (record.measurement) values.push_back(get(*record.measurement));
  }
  return values.empty() ? 0 : upper_median(std::move(values));
}

template <class Get>
Figure predicted(Get get) {
  return [get](const Record& r) {
    return r.prediction ? std::optional<double>(get(*r.prediction)) : std::nullopt;
  };
}
template <class Get>
Figure measured(Get get) {
  return [get](const Record& r) {
    return r.measurement ? std::optional<double>(get(*r.measurement)) : std::nullopt;
  };
}
Figure error(double ErrorReport::*member) {
  return [member](const Record& r) {
    return r.error ? std::optional<double>((*r.error).*member) : std::nullopt;
  };
}

bool knows_device(const Record& record) {
  return (record.prediction && record.prediction->device_memory) ||
         (record.measurement && record.measurement->device_memory);
}

/// GPU memory of the fullest rank.
template <class Report>
double device_bytes(const Report& report) {
  const DeviceMemoryRow* most = report.device_memory ? report.device_memory->fullest() : nullptr;
  return most == nullptr ? NAN : static_cast<double>(most->total.value);
}

std::vector<Column> columns_of(const std::vector<Record>& records) {
  const auto peak = [](const auto& report) { return static_cast<double>(report.memory.peak.value); };
  const auto step = [](const auto& report) { return report.time.step.value; };
  const auto bubble = [](const auto& report) { return report.time.bubble_fraction; };
  const Scale memory = memory_scale(records);
  const Scale time = time_scale(records);
  const std::string memory_group = fmt::format("Peak memory, {}", memory.unit);
  const std::string time_group = fmt::format("Step time, {}", time.unit);
  const Scale percent{100, "%", 1};
  std::vector<Column> columns = {
      {memory_group, "predicted", predicted(peak), memory},
      {memory_group, "measured", measured(peak), memory},
      {memory_group, "error %", error(&ErrorReport::peak_memory), {100, "%", 2}, true}};
  if (std::any_of(records.begin(), records.end(), knows_device)) {
    const auto device = [](const auto& report) { return device_bytes(report); };
    const std::string group = fmt::format("Device memory, {}", memory.unit);
    columns.push_back({group, "predicted", predicted(device), memory});
    columns.push_back({group, "measured", measured(device), memory});
  }
  // At calibrated speed; at probed speed alongside where that is known.
  const std::vector<Column> rest = {
      {time_group, "predicted", predicted(step), time},
      {time_group, "measured", measured(step), time},
      {time_group, "error %", error(&ErrorReport::step_time), percent, true},
      {"Bubble, idle / step", "predicted", predicted(bubble), {1, "", 3}},
      {"Bubble, idle / step", "measured", measured(bubble), {1, "", 3}},
      {"Bubble, idle / step", "difference", error(&ErrorReport::bubble_fraction), {1, "", 3}, true},
      {"Measured throughput",
       "tokens/s",
       measured([](const auto& r) { return r.throughput.tokens_per_s; }),
       {1, "", 0}},
      {"Measured throughput", "MFU %", measured([](const auto& r) { return r.throughput.mfu; }), percent}};
  columns.insert(columns.end(), rest.begin(), rest.end());
  if (std::any_of(records.begin(), records.end(), [](const Record& r) { return r.probed.has_value(); })) {
    const auto probed = [](const Record& r) {
      return r.probed ? std::optional<double>(r.probed->time.step.value) : std::nullopt;
    };
    const auto group =
        std::find_if(columns.begin(), columns.end(), [](const Column& c) { return c.group[0] == 'B'; });
    columns.insert(group,
                   {{time_group, "at probed speed", probed, time},
                    {time_group, "its error %", error(&ErrorReport::probed_step_time), percent, true}});
  }
  return columns;
}

/// How far off an error is: the class of its cell's shade.
int severity(double error) {
  const double size = std::abs(error);
  return size < 0.02 ? 0 : size < 0.05 ? 1 : size < 0.10 ? 2 : 3;
}

/// "pipeline_schedule" may be broken after the underscore.
std::string breakable(std::string title) {
  for (std::size_t at = 0; (at = title.find('_', at)) != std::string::npos; at += 6)
    title.insert(at + 1, "<wbr>");
  return title;
}

std::string header_button(int column, const std::string& title, bool numeric) {
  return fmt::format(
      "<th scope=\"col\" class=\"{}\"><button type=\"button\" class=\"sort\" "
      "data-column=\"{}\">{}</button></th>",
      numeric ? "num" : "text", column, breakable(html_escaped(title)));
}

std::string header_html(const std::vector<std::string>& keys, const std::vector<Column>& columns) {
  std::string groups = fmt::format("<tr><td colspan=\"{}\"></td>", keys.size() + 2);
  for (std::size_t i = 0; i < columns.size();) {
    std::size_t end = i;
    while (end < columns.size() && columns[end].group == columns[i].group) ++end;
    groups += fmt::format("<th scope=\"colgroup\" colspan=\"{}\" class=\"group\">{}</th>", end - i,
                          html_escaped(columns[i].group));
    i = end;
  }
  std::string titles = "<tr>" + header_button(0, "#", true) + header_button(1, "status", false);
  int number = 2;
  for (const std::string& key : keys) titles += header_button(number++, title_of(key), false);
  for (const Column& column : columns) titles += header_button(number++, column.title, true);
  return groups + "</tr>" + titles + "</tr>";
}

std::string row_html(const Record& record, std::size_t index, const std::vector<std::string>& keys,
                     const std::vector<Column>& columns) {
  const auto status = name_of(record.status);
  std::string row = fmt::format(
      "<tr data-cell=\"{0}\"><th scope=\"row\" class=\"num\" data-v=\"{1}\"><a href=\"#cell-{1}\" "
      "aria-label=\"Cell {1}, details\">{1}</a></th><td class=\"text\" data-v=\"{2}\"><span class=\"status "
      "{2}\">{2}</span>{3}</td>",
      index, index + 1, status, record.disturbed() ? ", disturbed" : "");
  for (const std::string& key : keys) {
    const std::string value = value_of(record, key);
    row += fmt::format("<td class=\"text\" data-k=\"{}\" data-v=\"{}\">{}</td>", html_escaped(key),
                       html_escaped(value), html_escaped(printable(value, kLongestValue)));
  }
  for (const Column& column : columns) {
    const std::optional<double> value = column.figure(record);
    if (!value || !std::isfinite(*value)) {
      row += "<td class=\"num none\">\xe2\x80\x93</td>";
      continue;
    }
    const std::string text = column.is_error
                                 ? fmt::format("{:+.{}f}", *value * column.scale.factor, column.scale.digits)
                                 : shown(*value, column.scale);
    row += fmt::format("<td class=\"num{}\" data-v=\"{}\">{}</td>",
                       column.is_error ? fmt::format(" e{}", severity(*value)) : "", *value, text);
  }
  return row + "</tr>\n";
}

/// A choice for each status and each key with few values.
std::string filters_html(const std::vector<Record>& records, const std::vector<std::string>& keys) {
  std::string html =
      "<form class=\"filters\" id=\"filters\"><label>Search <input type=\"search\" id=\"search\" "
      "autocomplete=\"off\" spellcheck=\"false\"></label>";
  const auto choice = [&](const std::string& key, const std::string& title,
                          const std::set<std::string>& values) {
    if (values.size() < 2 || values.size() > kMostChoices) return;
    html += fmt::format("<label>{} <select data-key=\"{}\"><option value=\"\">all</option>",
                        html_escaped(title), html_escaped(key));
    for (const std::string& value : values) {
      html += fmt::format("<option value=\"{}\">{}</option>", html_escaped(value),
                          html_escaped(printable(value, kLongestValue)));
    }
    html += "</select></label>";
  };
  std::set<std::string> statuses;
  for (const Record& record : records) statuses.emplace(name_of(record.status));
  choice("status", "Status", statuses);
  for (const std::string& key : keys) {
    std::set<std::string> values;
    for (const Record& record : records) values.insert(value_of(record, key));
    choice(key, title_of(key), values);
  }
  return html +
         "<label>Step error of at least <input type=\"number\" id=\"worst\" min=\"0\" step=\"1\" "
         "inputmode=\"decimal\"> %</label><button type=\"reset\">Clear</button><output id=\"shown\" "
         "aria-live=\"polite\"></output></form>";
}

}  // namespace

Scale memory_scale(const std::vector<Record>& records) {
  const double typical =
      typical_of(records, [](const auto& r) { return static_cast<double>(r.memory.peak.value); });
  const ByteUnit unit = readable_unit(typical);
  return {1.0 / static_cast<double>(unit.size.value), unit.name, unit.digits};
}

Scale time_scale(const std::vector<Record>& records) {
  const double typical = typical_of(records, [](const auto& r) { return r.time.step.value; });
  return typical < 1 ? Scale{1e3, "ms", 1} : Scale{1, "s", 3};
}

std::string shown(double value, const Scale& scale) {
  return fmt::format("{:.{}f}", value * scale.factor, scale.digits);
}

std::string table_html(const std::vector<Record>& records) {
  const std::vector<std::string> keys = keys_to_show(records);
  const std::vector<Column> columns = columns_of(records);
  std::string html = filters_html(records, keys);
  html +=
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table of cells\"><table "
      "id=\"table\"><caption>Every cell: predicted, measured and their difference. A heading sorts; a number "
      "opens the cell.</caption><thead>" +
      header_html(keys, columns) + "</thead><tbody>\n";
  for (std::size_t i = 0; i < records.size(); ++i) html += row_html(records[i], i, keys, columns);
  return html + "</tbody></table></div>";
}

}  // namespace plumbline

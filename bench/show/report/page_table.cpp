// The table of cells.
#include <fmt/format.h>

#include <cmath>
#include <set>
#include <string_view>

#include "bench/show/report/escape.hpp"
#include "bench/show/report/page_parts.hpp"
#include "bench/show/text/cell_columns.hpp"
#include "bench/show/text/record_tables.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kLongestValue = 32;
constexpr std::size_t kMostChoices = 12;

/// Columns in their order, and the units of all of them.
struct PageColumns {
  explicit PageColumns(const std::vector<Record>& records)
      : columns(columns_to_show(records)), units(records), measured(any_measured(records)) {}

  std::vector<const CellColumn*> columns;
  CellUnits units;
  bool measured = false;
};

/// Size class of an error: the shade of its cell.
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

/// `path`: of the figure in a record.
std::string header_button(int column, const std::string& title, bool numeric, std::string_view path = "") {
  return fmt::format(
      "<th scope=\"col\" class=\"{}\" data-path=\"{}\"><button type=\"button\" class=\"sort\" "
      "data-column=\"{}\">{}</button></th>",
      numeric ? "num" : "text", path, column, breakable(html_escaped(title)));
}

std::string header_html(const std::vector<Record>& records, const std::vector<std::string>& keys,
                        const PageColumns& page) {
  const auto& columns = page.columns;
  std::string groups = fmt::format("<tr><td colspan=\"{}\"></td>", keys.size() + 2);
  for (std::size_t i = 0; i < columns.size();) {
    std::size_t end = i;
    while (end < columns.size() && columns[end]->quantity == columns[i]->quantity) ++end;
    groups += fmt::format("<th scope=\"colgroup\" colspan=\"{}\" class=\"group\">{}</th>", end - i,
                          html_escaped(page.units.group(*columns[i])));
    i = end;
  }
  std::string titles = "<tr>" + header_button(0, "#", true) + header_button(1, "status", false);
  int number = 2;
  for (const std::string& key : keys) titles += header_button(number++, title_of(key), false);
  for (const CellColumn* column : columns)
    titles += header_button(number++, column->label(records), true, column->json);
  return groups + "</tr>" + titles + "</tr>";
}

std::string row_html(const Record& record, std::size_t index, const std::vector<std::string>& keys,
                     const PageColumns& page) {
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
  for (const CellColumn* column : page.columns) {
    const double value = column->of(record);
    if (!std::isfinite(value)) {
      row += "<td class=\"num none\">\xe2\x80\x93</td>";
      continue;
    }
    row += fmt::format("<td class=\"num{}\" data-v=\"{}\">{}{}</td>",
                       column->side == ColumnSide::error ? fmt::format(" e{}", severity(value)) : "", value,
                       is_guess(*column, record) ? "guess " : "", page.units.text(*column, value));
  }
  return row + "</tr>\n";
}

/// A choice for each status and each key with few values.
std::string filters_html(const std::vector<Record>& records, const std::vector<std::string>& keys,
                         bool measured) {
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
  if (measured) {
    html += fmt::format(
        "<label>Step time error %{} of at least <input type=\"number\" id=\"worst\" min=\"0\" step=\"1\" "
        "inputmode=\"decimal\"> %</label>",
        speed_suffix(AtSpeed::calibrated, records));
  }
  return html +
         "<button type=\"reset\">Clear</button><output id=\"shown\" "
         "aria-live=\"polite\"></output></form>";
}

}  // namespace

std::string table_html(const std::vector<Record>& records) {
  const std::vector<std::string> keys = keys_to_show(records);
  const PageColumns page(records);
  std::string html = filters_html(records, keys, page.measured);
  html +=
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table of cells\"><table "
      "id=\"table\"><caption>Every cell: " +
      std::string(page.measured ? "predicted, measured and their difference" : "predicted") +
      ". Click a heading to sort, a number to open the cell.</caption><thead>" +
      header_html(records, keys, page) + "</thead><tbody>\n";
  for (std::size_t i = 0; i < records.size(); ++i) html += row_html(records[i], i, keys, page);
  html += "</tbody></table></div>";
  const std::string_view note = guess_note(records);
  return note.empty() ? html : html + fmt::format("<p class=\"note\">{}</p>", html_escaped(note));
}

}  // namespace plumbline

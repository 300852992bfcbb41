// The out-of-memory table for programs.
#include "bench/matrix/oom_table.hpp"

#include "core/base/output_json.hpp"

namespace plumbline {
namespace {

OrderedJson to_json(const FitVerdict& verdict, Bytes budget) {
  OrderedJson json;
  json["status"] = name_of(verdict.status);
  if (!verdict.verdict.empty()) json["verdict"] = verdict.verdict;
  if (verdict.chance) json["chance"] = *verdict.chance;
  if (!verdict.peak) return json;
  json["peak_bytes"] = verdict.peak->value;
  if (budget.value > 0) json["margin_bytes"] = (budget - *verdict.peak).value;
  json["rank"] = verdict.rank;
  json["category"] = name_of(verdict.category);
  json["category_bytes"] = verdict.category_bytes.value;
  return json;
}

OrderedJson to_json(const OomRow& row) {
  OrderedJson json;
  json["id"] = row.cell.id;
  json["values"] = OrderedJson::object();
  for (const auto& [key, value] : row.cell.values) json["values"][key] = value;
  json["budget_bytes"] = row.budget.value;
  json["published"] = row.published ? OrderedJson(name_of(*row.published)) : OrderedJson(nullptr);
  json["predicted"] = row.predicted ? to_json(*row.predicted, row.budget) : OrderedJson(nullptr);
  json["measured"] = row.measured ? to_json(*row.measured, row.budget) : OrderedJson(nullptr);
  json["reason"] = row.reason;
  return json;
}

}  // namespace

std::string to_json(const OomTable& table) {
  OrderedJson json;
  json["source"] = table.source;
  json["cells"] = OrderedJson::array();
  for (const OomRow& row : table.rows) json["cells"].push_back(to_json(row));
  const OomAgreement agreement = agreement_of(table.rows);
  json["agreement"] = {
      {"measured_cells", agreement.measured},   {"same_status", agreement.same_status},
      {"measured_peaks", agreement.peaks},      {"same_peak", agreement.same_peak},
      {"published_cells", agreement.published}, {"same_as_published", agreement.same_as_published}};
  json["hypotheses"] = OrderedJson::array();
  const auto bytes = [](const std::optional<Bytes>& value) {
    return value ? OrderedJson(value->value) : OrderedJson(nullptr);
  };
  for (const HypothesisRow& row : table.hypotheses) {
    json["hypotheses"].push_back({{"name", row.name},
                                  {"budget_bytes", row.budget.value},
                                  {"right", row.right},
                                  {"wrong", row.wrong},
                                  {"explains", row.explains()},
                                  {"fitting_peak_bytes", bytes(row.fitting)},
                                  {"missing_peak_bytes", bytes(row.missing)}});
  }
  json["knife_edge"] = table.edge ? to_json(*table.edge) : OrderedJson(nullptr);
  return output_json(json, 2);
}

}  // namespace plumbline

#include "bench/record/node_report.hpp"

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/one_line.hpp"

namespace plumbline {
namespace {

/// Writes every member under its name.
struct NodeWriter {
  nlohmann::ordered_json& json;
  template <class Value>
  void operator()(const char* name, const Value& value) const {
    json[name] = value;
  }
};

/// Reads them; a missing one or one of another type throws nlohmann's exception.
struct NodeReader {
  const nlohmann::json& json;
  template <class Value>
  void operator()(const char* name, Value& value) const {
    value = json.at(name).get<Value>();
  }
};

template <class Report, class Each>
void for_each_member(Report& report, const Each& each) {
  each("rank", report.rank);
  each("host", report.host);
  each("device", report.device);
  each("product_s", report.product_s);
  each("product_flops", report.product_flops);
  each("copy_s", report.copy_s);
  each("copy_bytes", report.copy_bytes);
  each("clock", report.clock);
  each("product_factor", report.product_factor);
  each("copy_factor", report.copy_factor);
  each("reasons", report.reasons);
  each("notes", report.notes);
}

template <class Health, class Each>
void for_each_fact(Health& health, const Each& each) {
  each("celsius", health.celsius);
  each("corrected_errors", health.corrected_errors);
  each("uncorrected_errors", health.uncorrected_errors);
  each("pcie_generation", health.pcie_generation);
  each("pcie_width", health.pcie_width);
  each("most_pcie_width", health.most_pcie_width);
  each("nvlinks", health.nvlinks);
  each("sm_mhz", health.sm_mhz);
  each("throttled", health.throttled);
}

}  // namespace

nlohmann::ordered_json to_json(const NodeReport& report) {
  nlohmann::ordered_json json;
  for_each_member(report, NodeWriter{json});
  json["passed"] = report.passed();
  json["pairs"] = nlohmann::ordered_json::array();
  for (const PairReport& pair : report.pairs) {
    json["pairs"].push_back(
        {{"rank", pair.rank}, {"latency_s", pair.latency_s}, {"bandwidth", pair.bandwidth}});
  }
  nlohmann::ordered_json& health = json["health"];
  for_each_fact(report.health, NodeWriter{health});
  health["nics"] = nlohmann::ordered_json::array();
  for (const NicReport& nic : report.health.nics)
    health["nics"].push_back({{"name", nic.name}, {"gbit", nic.gbit}, {"active", nic.active}});
  return json;
}

NodeReport parse_node_report(std::string_view json, const std::string& origin) {
  const Json root = parse_json_object(json, origin);
  NodeReport report;
  try {
    for_each_member(report, NodeReader{root});
    for_each_fact(report.health, NodeReader{root.at("health")});
    for (const Json& pair : root.at("pairs")) {
      report.pairs.push_back({pair.at("rank").get<int>(), pair.at("latency_s").get<double>(),
                              pair.at("bandwidth").get<double>()});
    }
    for (const Json& nic : root.at("health").at("nics")) {
      report.health.nics.push_back(
          {nic.at("name").get<std::string>(), nic.at("gbit").get<double>(), nic.at("active").get<bool>()});
    }
  } catch (const nlohmann::json::exception& error) {
    throw InputError(fmt::format("{}: found {}, expected a node's report", printable(origin),
                                 printable(error.what(), 200)));
  }
  return report;
}

}  // namespace plumbline

#include "bench/record/gpu_report.hpp"

#include <limits>

namespace plumbline {
namespace {

struct GpuStateKey {
  const char* key;
  double GpuState::*member;
};
constexpr GpuStateKey kGpuStateKeys[] = {
    {"sm_mhz_min", &GpuState::least_sm_mhz},        {"sm_mhz_max", &GpuState::most_sm_mhz},
    {"memory_mhz_max", &GpuState::most_memory_mhz}, {"power_w_mean", &GpuState::mean_watt},
    {"power_w_max", &GpuState::most_watt},          {"temperature_c_max", &GpuState::most_celsius}};
constexpr double kMostOfAny = 1e9;

OrderedJson to_json(const GpuState& state) {
  OrderedJson json = {{"samples", state.samples}};
  for (const GpuStateKey& key : kGpuStateKeys) json[key.key] = state.*key.member;
  json["throttled"] = state.throttled;
  return json;
}

GpuState gpu_state_of(const OrderedJsonKeys& keys) {
  GpuState state;
  state.samples = static_cast<int>(keys.integer("samples", 0, std::numeric_limits<int>::max()));
  for (const GpuStateKey& key : kGpuStateKeys) state.*key.member = keys.number(key.key, 0, kMostOfAny);
  state.throttled = keys.strings("throttled");
  return state;
}

}  // namespace

OrderedJson to_json(const GpuReport& report) {
  OrderedJson calls = OrderedJson::array();
  for (const ComputedBy& one : report.computed_by) {
    OrderedJson json = {{"call", one.call}, {"by", one.by}};
    if (!one.why.empty()) json["why"] = one.why;
    calls.push_back(std::move(json));
  }
  OrderedJson json = {{"computed_by", std::move(calls)}};
  if (report.state) json["state"] = to_json(*report.state);
  return json;
}

std::optional<GpuReport> gpu_report_of(const OrderedJsonKeys& keys) {
  if (keys.find("gpu") == nullptr) return std::nullopt;
  const OrderedJsonKeys object = keys.object("gpu");
  GpuReport report;
  for (const OrderedJsonKeys& call : object.objects("computed_by")) {
    report.computed_by.push_back({call.string("call"), call.string("by"), call.string_or("why", "")});
  }
  if (object.find("state") != nullptr) report.state = gpu_state_of(object.object("state"));
  return report;
}

}  // namespace plumbline

#include <algorithm>
#include <string>

#include "bench/show/views/diagnose/diagnosis_report.hpp"

namespace plumbline {
namespace {

OrderedJson json_of(const SharedTime& time) {
  OrderedJson json;
  for (std::size_t i = 0; i < kTimeShares; ++i) json[std::string(kTimeShareNames[i].key)] = time.seconds[i];
  return json;
}

/// Name of a category as a value.
std::string json_name(TimeShare share) {
  const std::string_view key = name_of(share).key;
  return std::string(key.substr(0, key.size() - 2));
}

OrderedJson json_of(const std::vector<StepFinding>& findings) {
  OrderedJson json = OrderedJson::array();
  for (const StepFinding& finding : findings) {
    json.push_back({{"category", json_name(finding.share)},
                    {"rank", finding.rank < 0 ? OrderedJson(nullptr) : OrderedJson(finding.rank)},
                    {"seconds", finding.seconds},
                    {"cause", finding.cause},
                    {"change", finding.change}});
  }
  return json;
}

OrderedJson json_of(const TracedOperator& time) {
  OrderedJson json = {{"name", time.name},
                      {"sizes", time.shapes},
                      {"category", json_name(time.share)},
                      {"calls", time.count},
                      {"seconds", time.seconds}};
  if (time.flops > 0) json["flops"] = time.flops;
  if (time.bytes > 0) json["bytes"] = time.bytes;
  if (time.group_size > 0) json["group_size"] = time.group_size;
  return json;
}

OrderedJson json_of(const RankBreakdown& rank) {
  OrderedJson json = {{"rank", rank.rank},
                      {"trace", rank.origin},
                      {"step_s", rank.step.seconds()},
                      {"time", json_of(rank.time)},
                      {"communication_s", rank.communication_s},
                      {"hidden_communication_s", rank.hidden_communication_s},
                      {"host_outside_operators_s", rank.outside_operators_s},
                      {"host_launching_s", rank.launching_s},
                      {"host_synchronisation_s", rank.synchronisation_s},
                      {"synchronisations", rank.synchronisations}};
  OrderedJson operators = OrderedJson::array();
  for (const TracedOperator& time : rank.operators) operators.push_back(json_of(time));
  json["operators"] = std::move(operators);
  OrderedJson gaps = OrderedJson::array();
  for (const HostGap& gap : rank.gaps)
    gaps.push_back({{"after", gap.after}, {"count", gap.count}, {"seconds", gap.seconds}});
  json["gaps"] = std::move(gaps);
  return json;
}

}  // namespace

OrderedJson diagnosis_json(const Diagnosis& diagnosis, const std::optional<ExpectedStep>& expected) {
  OrderedJson json = {{"step", diagnosis.step},     {"found_by", diagnosis.found_by},
                      {"steps", diagnosis.steps},   {"device", diagnosis.device},
                      {"step_s", diagnosis.step_s}, {"time", json_of(diagnosis.time)}};
  if (expected) {
    SharedTime difference;
    for (std::size_t i = 0; i < kTimeShares; ++i)
      difference.seconds[i] = diagnosis.time.seconds[i] - expected->time.seconds[i];
    json["predicted"] = {
        {"hardware", expected->hardware},    {"step_s", expected->time.sum()},
        {"time", json_of(expected->time)},   {"comparable", expected->comparable},
        {"difference", json_of(difference)}, {"differences", json_of(expected->differences)}};
  }
  json["causes"] = json_of(diagnosis.findings);
  OrderedJson waits = OrderedJson::array();
  for (const RankWait& wait : diagnosis.clocks.waits) {
    waits.push_back({{"waiting", diagnosis.ranks[static_cast<std::size_t>(wait.waiting)].rank},
                     {"late", diagnosis.ranks[static_cast<std::size_t>(wait.late)].rank},
                     {"seconds", wait.seconds}});
  }
  json["waits"] = std::move(waits);
  OrderedJson offsets = OrderedJson::array();
  for (const std::int64_t offset : diagnosis.clocks.offsets)
    offsets.push_back(static_cast<double>(offset) * 1e-9);
  json["clocks"] = {{"collectives", diagnosis.clocks.matched}, {"offsets_s", std::move(offsets)}};
  OrderedJson ranks = OrderedJson::array();
  for (const RankBreakdown& rank : diagnosis.ranks) ranks.push_back(json_of(rank));
  json["ranks"] = std::move(ranks);
  json["notes"] = diagnosis.notes;
  return json;
}

}  // namespace plumbline

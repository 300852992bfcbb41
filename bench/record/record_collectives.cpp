#include "bench/record/record_collectives.hpp"

#include <cmath>
#include <string>

namespace plumbline {

OrderedJson to_json(const VocabularyOverlap& overlap) {
  OrderedJson json = OrderedJson::object();
  for (const VocabularyCall call : kAllVocabularyCalls) {
    const CollectiveOverlap& each = overlap[static_cast<std::size_t>(call)];
    json[std::string(short_name(call))] = {
        {"time_s", each.time.value},
        {"exposed_s", each.exposed.value},
        {"waited_s", each.waited.value},
        {"overlapped", std::isfinite(each.overlapped) ? OrderedJson(each.overlapped) : OrderedJson(nullptr)}};
  }
  return json;
}

std::optional<VocabularyOverlap> vocabulary_collectives_of(const OrderedJsonKeys& time) {
  if (time.find("vocabulary_collectives") == nullptr) return std::nullopt;
  const OrderedJsonKeys rows = time.object("vocabulary_collectives");
  VocabularyOverlap overlap{};
  for (const VocabularyCall call : kAllVocabularyCalls) {
    const OrderedJsonKeys row = rows.object(std::string(short_name(call)));
    overlap[static_cast<std::size_t>(call)] = {{row.number("time_s", 0)},
                                               {row.number("exposed_s", 0)},
                                               {row.number("waited_s", 0)},
                                               row.number_or_null("overlapped", 0)};
  }
  return overlap;
}

OrderedJson to_json(const LaneSums& sums) {
  OrderedJson json = OrderedJson::object();
  for (std::size_t place = 0; place < kLanes; ++place) {
    const LaneTimes& lane = sums[place];
    if (lane.time.value <= 0) continue;
    json[std::string(lane_name(lane_at(place)))] = {{"time_s", lane.time.value},
                                                    {"exposed_s", lane.exposed.value}};
  }
  return json;
}

std::optional<LaneSums> lane_sums_of(const OrderedJsonKeys& part) {
  if (part.find("lanes") == nullptr) return std::nullopt;
  const OrderedJsonKeys lanes = part.object("lanes");
  LaneSums sums{};
  for (std::size_t place = 0; place < kLanes; ++place) {
    const std::string name(lane_name(lane_at(place)));
    if (lanes.find(name) == nullptr) continue;
    const OrderedJsonKeys lane = lanes.object(name);
    sums[place] = {{lane.number("time_s", 0)}, {lane.number("exposed_s", 0)}};
  }
  return sums;
}

}  // namespace plumbline

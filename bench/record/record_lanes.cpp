#include "bench/record/record_lanes.hpp"

#include <string>

namespace plumbline {

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

// Keys of traffic: messages between stages and collectives by group.
#include "bench/record/tables/object_tables.hpp"

namespace plumbline {
namespace {

using GroupsTraffic = decltype(Traffic::groups);

}  // namespace

template <>
const ObjectTable<GroupTraffic>& table_of<GroupTraffic>() {
  static const ObjectTable<GroupTraffic> kTable{
      "group_traffic",
      "Bytes of whole buffers. Groups of one rank move nothing.",
      {field("calls", &GroupTraffic::calls, "collectives"),
       field("all_reduce_bytes", &GroupTraffic::all_reduced, "reduced buffers"),
       field("all_gather_bytes", &GroupTraffic::all_gathered, "outputs"),
       field("reduce_scatter_bytes", &GroupTraffic::reduce_scattered, "inputs"),
       field("broadcast_bytes", &GroupTraffic::broadcast, "buffers"),
       field("all_to_all_bytes", &GroupTraffic::exchanged, "inputs", kLeftOut)}};
  return kTable;
}

template <>
const ObjectTable<GroupsTraffic>& table_of<GroupsTraffic>() {
  static const ObjectTable<GroupsTraffic> kTable = [] {
    ObjectTable<GroupsTraffic> table{"traffic_groups", "", {}};
    for (std::size_t i = 0; i < kGroups; ++i)
      table.fields.push_back(element_field<GroupsTraffic>(name_of(static_cast<Group>(i)), i, "")
                                 .when([i](const GroupsTraffic& groups) { return groups[i].calls > 0; }));
    return table;
  }();
  return kTable;
}

template <>
const ObjectTable<Traffic>& table_of<Traffic>() {
  static const ObjectTable<Traffic> kTable{
      "traffic",
      "The last step, of fp16 with an update; the largest of any rank.",
      {field("messages", &Traffic::messages_sent, "between pipeline stages"),
       field("message_bytes", &Traffic::point_to_point_sent, "between pipeline stages"),
       field("groups", &Traffic::groups, "")}};
  return kTable;
}

}  // namespace plumbline

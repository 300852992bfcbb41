// Records to JSON and back, by their tables of keys.
#include "bench/record/tables/object_tables.hpp"
#include "core/base/output_json.hpp"

namespace plumbline {
namespace {

constexpr int kMaxDepth = 16;

/// Output of a rank program.
const ObjectTable<RankMeasurement>& rank_measurement_table() {
  static const ObjectTable<RankMeasurement> kTable{"rank_measurement",
                                                   "",
                                                   {field("measurement", &RankMeasurement::measurement, ""),
                                                    field("probed", &RankMeasurement::probed, "", kLeftOut)}};
  return kTable;
}

}  // namespace

OrderedJson to_json(const PredictionReport& prediction) {
  return write_object(table_of<PredictionReport>(), prediction);
}
OrderedJson to_json(const MeasurementReport& measurement) {
  return write_object(table_of<MeasurementReport>(), measurement);
}
OrderedJson to_json(const ProbedReport& probed) {
  return write_object(table_of<ProbedReport>(), probed);
}
OrderedJson to_json(const Record& record) {
  return write_object(table_of<Record>(), record);
}

std::string to_line(const Record& record) {
  return output_json(to_json(record), -1);
}

Record parse_record(std::string_view line, const std::string& origin) {
  const auto json = parse_json_object<OrderedJson>(line, origin, kMaxDepth);
  return read_object(table_of<Record>(), OrderedJsonKeys(json, origin));
}

RankMeasurement parse_measurement(std::string_view text, const std::string& origin) {
  const auto json = parse_json_object<OrderedJson>(text, origin, kMaxDepth);
  return read_object(rank_measurement_table(), OrderedJsonKeys(json, origin));
}

}  // namespace plumbline

// The tables of all objects of the record.
#pragma once

#include <string>
#include <vector>

#include "bench/record/record.hpp"
#include "bench/record/tables/field_values.hpp"

namespace plumbline {

/// A name, which must be among known ones.
template <class Name>
struct ValueOfName {
  static OrderedJson schema(const ValueRule& /*rule*/) {
    OrderedJson names = OrderedJson::array();
    for (int i = 0; i < Name::kCount; ++i) names.push_back(name_of(static_cast<typename Name::Type>(i)));
    return {{"type", "string"}, {"enum", std::move(names)}};
  }
  static OrderedJson write(typename Name::Type value) { return name_of(value); }
  static typename Name::Type read(const OrderedJsonKeys& keys, const std::string& key,
                                  const ValueRule& /*rule*/) {
    const std::string name = keys.string(key);
    for (int i = 0; i < Name::kCount; ++i) {
      if (name == name_of(static_cast<typename Name::Type>(i))) return static_cast<typename Name::Type>(i);
    }
    keys.refuse(key, Name::kExpected);
  }
};
struct CategoryName {
  using Type = Category;
  static constexpr int kCount = kCategories;
  static constexpr const char* kExpected = "a category of memory";
};
struct StatusName {
  using Type = Status;
  static constexpr int kCount = static_cast<int>(Status::unsupported) + 1;
  static constexpr const char* kExpected = "ok, oom, invalid, failed, timeout or unsupported";
};
template <>
struct ValueOf<Category> : ValueOfName<CategoryName> {};
template <>
struct ValueOf<Status> : ValueOfName<StatusName> {};

/// Two ascending numbers.
template <>
struct ValueOf<StepInterval> {
  static OrderedJson schema(const ValueRule& rule) { return list_schema(number_schema("number", rule)); }
  static OrderedJson write(const StepInterval& interval) {
    return {finite_or_null(interval.low.value), finite_or_null(interval.high.value)};
  }
  static StepInterval read(const OrderedJsonKeys& keys, const std::string& key, const ValueRule& rule) {
    const std::vector<double> ends = keys.numbers(key, rule.min, rule.max, 2);
    if (ends.size() != 2 || ends[0] > ends[1]) keys.refuse(key, "two ascending numbers");
    return {{ends[0]}, {ends[1]}};
  }
};

// Times and throughput, of predictions and (null: not measured) of measurements.
const ObjectTable<StepTime>& predicted_time_table();
const ObjectTable<StepTime>& measured_time_table();
const ObjectTable<Throughput>& predicted_throughput_table();
const ObjectTable<Throughput>& measured_throughput_table();

template <>
const ObjectTable<VocabularyOverlap>& table_of<VocabularyOverlap>();
template <>
const ObjectTable<AttentionReport>& table_of<AttentionReport>();
template <>
const ObjectTable<LaneSums>& table_of<LaneSums>();
template <>
const ObjectTable<MemoryReport>& table_of<MemoryReport>();
template <>
const ObjectTable<DeviceMemoryReport>& table_of<DeviceMemoryReport>();
template <>
const ObjectTable<Traffic>& table_of<Traffic>();
template <>
const ObjectTable<StepReport>& table_of<StepReport>();
template <>
const ObjectTable<DisturbanceReport>& table_of<DisturbanceReport>();
template <>
const ObjectTable<ComputingReport>& table_of<ComputingReport>();
template <>
const ObjectTable<ExpertLoadReport>& table_of<ExpertLoadReport>();
template <>
const ObjectTable<CheckpointReport>& table_of<CheckpointReport>();
template <>
const ObjectTable<EnergyReport>& table_of<EnergyReport>();
template <>
const ObjectTable<GpuReport>& table_of<GpuReport>();
template <>
const ObjectTable<PredictionReport>& table_of<PredictionReport>();
template <>
const ObjectTable<MeasurementReport>& table_of<MeasurementReport>();
template <>
const ObjectTable<ProbedReport>& table_of<ProbedReport>();
template <>
const ObjectTable<RecoveryReport>& table_of<RecoveryReport>();
template <>
const ObjectTable<Record>& table_of<Record>();

}  // namespace plumbline

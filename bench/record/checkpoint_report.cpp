#include "bench/record/checkpoint_report.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kMostCheckpoints = std::int64_t{1} << 40;

}  // namespace

OrderedJson to_json(const CheckpointReport& report) {
  return {{"interval", report.interval},       {"async", report.async},
          {"written", report.written},         {"failed", report.failed},
          {"bytes", report.bytes.value},       {"largest_buffer_bytes", report.largest_buffer.value},
          {"stall_s", report.stall.value},     {"stall_s_max", report.stall_max.value},
          {"durable_s", report.durable.value}, {"resumed_step", report.resumed_step},
          {"restore_s", report.restore.value}};
}

std::optional<CheckpointReport> checkpoint_report_of(const OrderedJsonKeys& keys) {
  if (keys.find("checkpoints") == nullptr) return std::nullopt;
  const OrderedJsonKeys object = keys.object("checkpoints");
  CheckpointReport report;
  report.interval = object.integer("interval", 0, kMostCheckpoints);
  report.async = object.boolean("async");
  report.written = object.integer("written", 0, kMostCheckpoints);
  report.failed = object.integer("failed", 0, kMostCheckpoints);
  report.bytes = {object.integer("bytes", 0, std::int64_t{1} << 60)};
  report.largest_buffer = {object.integer("largest_buffer_bytes", 0, std::int64_t{1} << 60)};
  report.stall = {object.number("stall_s", 0)};
  report.stall_max = {object.number("stall_s_max", 0)};
  report.durable = {object.number("durable_s", 0)};
  report.resumed_step = object.integer("resumed_step", 0, kMostCheckpoints);
  report.restore = {object.number("restore_s", 0)};
  return report;
}

}  // namespace plumbline

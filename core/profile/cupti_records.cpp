#include "core/profile/cupti_records.hpp"

#include <cupti.h>
#include <fmt/format.h>

#include "core/base/error.hpp"

namespace plumbline {
namespace {

Seconds seconds(std::uint64_t nanoseconds) {
  return {static_cast<double>(nanoseconds) * 1e-9};
}

template <class Record>
const Record& as(const CUpti_Activity* record) {
  return *reinterpret_cast<const Record*>(record);
}

/// A forced flush also hands out records of unfinished work.
template <class Record>
bool complete(const Record& record) {
  return record.end != CUPTI_TIMESTAMP_UNKNOWN;
}

void read_record(const CUpti_Activity* record, RecordedActivities& into) {
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    case CUPTI_ACTIVITY_KIND_KERNEL: {
      const auto& kernel = as<CUpti_ActivityKernel10>(record);
      if (!complete(kernel)) break;
      into.activities.push_back({ActivityKind::kernel, kernel.name == nullptr ? "" : kernel.name,
                                 seconds(kernel.start), seconds(kernel.end), kernel.streamId,
                                 kernel.correlationId, Bytes{}});
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& copy = as<CUpti_ActivityMemcpy6>(record);
      if (!complete(copy)) break;
      into.activities.push_back({ActivityKind::copy, "", seconds(copy.start), seconds(copy.end),
                                 copy.streamId, copy.correlationId,
                                 Bytes{static_cast<std::int64_t>(copy.bytes)}});
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto& set = as<CUpti_ActivityMemset4>(record);
      if (!complete(set)) break;
      into.activities.push_back({ActivityKind::set, "", seconds(set.start), seconds(set.end), set.streamId,
                                 set.correlationId, Bytes{static_cast<std::int64_t>(set.bytes)}});
      break;
    }
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER: {
      const auto& call = as<CUpti_ActivityAPI>(record);
      if (!complete(call)) break;
      into.calls.push_back({call.correlationId, seconds(call.start), seconds(call.end)});
      break;
    }
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
      const auto& link = as<CUpti_ActivityExternalCorrelation>(record);
      into.links.push_back({link.correlationId, link.externalId});
      break;
    }
    case CUPTI_ACTIVITY_KIND_OVERHEAD: {
      const auto& overhead = as<CUpti_ActivityOverhead3>(record);
      if (overhead.end > overhead.start) into.profiler_overhead += seconds(overhead.end - overhead.start);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MARKER:
      ++into.markers;
      break;
    default:
      break;
  }
}

}  // namespace

void read_buffer(std::uint8_t* buffer, std::size_t valid_bytes, RecordedActivities& into) {
  CUpti_Activity* record = nullptr;
  for (;;) {
    const CUptiResult result = cuptiActivityGetNextRecord(buffer, valid_bytes, &record);
    if (result == CUPTI_ERROR_MAX_LIMIT_REACHED) return;
    if (result != CUPTI_SUCCESS) {
      const char* words = nullptr;
      cuptiGetResultString(result, &words);
      throw Error(fmt::format("cuptiActivityGetNextRecord: {}", words == nullptr ? "unknown error" : words));
    }
    read_record(record, into);
  }
}

}  // namespace plumbline

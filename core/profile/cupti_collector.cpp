#include "core/profile/cupti_collector.hpp"

#include <cupti.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <utility>

#include "core/backends/nccl/check.hpp"
#include "core/profile/cupti_records.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{8} << 20;
constexpr std::size_t kBufferAlignment = 8;  // required by CUPTI

/// Buffers between CUPTI, which fills them on a thread of its own, and the rank, which reads them after a
/// step. One per process, since CUPTI's callbacks carry no argument.
class Buffers {
 public:
  ~Buffers() {
    for (auto& [buffer, valid] : filled_) std::free(buffer);
    for (std::uint8_t* buffer : free_) std::free(buffer);
  }
  std::uint8_t* take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return static_cast<std::uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
    std::uint8_t* buffer = free_.back();
    free_.pop_back();
    return buffer;
  }
  void give_filled(std::uint8_t* buffer, std::size_t valid) {
    const std::lock_guard lock(mutex_);
    filled_.emplace_back(buffer, valid);
  }
  void give_back(std::uint8_t* buffer) {
    const std::lock_guard lock(mutex_);
    free_.push_back(buffer);
  }
  std::vector<std::pair<std::uint8_t*, std::size_t>> take_filled() {
    const std::lock_guard lock(mutex_);
    return std::exchange(filled_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<std::pair<std::uint8_t*, std::size_t>> filled_;  // with their valid bytes
  std::vector<std::uint8_t*> free_;
};

Buffers& buffers() {
  static Buffers all;
  return all;
}

CUpti_SubscriberHandle subscriber = nullptr;

std::uint64_t CUPTIAPI monotonic_nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

Seconds monotonic_seconds() {
  return {static_cast<double>(monotonic_nanoseconds()) * 1e-9};
}

void CUPTIAPI on_callback(void* /*data*/, CUpti_CallbackDomain /*domain*/, CUpti_CallbackId /*id*/,
                          const void* /*parameters*/) {}

void CUPTIAPI on_request(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  *buffer = buffers().take();
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *most_records = 0;  // no limit
}

void CUPTIAPI on_complete(CUcontext /*context*/, std::uint32_t /*stream*/, std::uint8_t* buffer,
                          std::size_t /*size*/, std::size_t valid) {
  buffers().give_filled(buffer, valid);
}

std::string words(CUptiResult result) {
  const char* text = nullptr;
  cuptiGetResultString(result, &text);
  return text == nullptr ? fmt::format("CUPTI error {}", static_cast<int>(result)) : text;
}

constexpr std::array kKinds = {
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
    CUPTI_ACTIVITY_KIND_MEMCPY,
    CUPTI_ACTIVITY_KIND_MEMSET,
    CUPTI_ACTIVITY_KIND_MARKER,
    CUPTI_ACTIVITY_KIND_RUNTIME,
    CUPTI_ACTIVITY_KIND_DRIVER,
    CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
    CUPTI_ACTIVITY_KIND_OVERHEAD,
};

/// NVTX looks for its listener when it is called first; without this it finds none.
void listen_to_nvtx() {
  Dl_info library{};
  if (dladdr(reinterpret_cast<const void*>(&cuptiSubscribe), &library) != 0 && library.dli_fname != nullptr) {
    ::setenv("NVTX_INJECTION64_PATH", library.dli_fname, 0);
  }
}

}  // namespace

std::uint32_t cupti_version() {
  std::uint32_t version = 0;
  cuptiGetVersion(&version);
  return version;
}

std::unique_ptr<CuptiCollector> CuptiCollector::start(std::string& reason) {
  std::array<char, CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN> other{};
  CUpti_SubscriberParams parameters{};
  parameters.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
  parameters.subscriberName = "plumbline";
  parameters.oldSubscriberName = other.data();
  parameters.oldSubscriberSize = other.size();
  const CUptiResult subscribed = cuptiSubscribe_v2(&subscriber, on_callback, nullptr, &parameters);
  if (subscribed == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
    reason = fmt::format("another profiler has subscribed to CUPTI ({}): NVTX ranges only",
                         other[0] == '\0' ? "it does not give its name" : other.data());
    return nullptr;
  }
  if (subscribed != CUPTI_SUCCESS) {
    reason = fmt::format("cuptiSubscribe: {}: NVTX ranges only", words(subscribed));
    return nullptr;
  }
  CUptiResult result = cuptiActivityRegisterTimestampCallback(monotonic_nanoseconds);
  if (result == CUPTI_SUCCESS) result = cuptiActivityRegisterCallbacks(on_request, on_complete);
  for (const CUpti_ActivityKind kind : kKinds) {
    if (result == CUPTI_SUCCESS) result = cuptiActivityEnable(kind);
  }
  if (result != CUPTI_SUCCESS) {
    cuptiUnsubscribe(subscriber);
    reason = fmt::format("CUPTI records nothing here: {}: NVTX ranges only", words(result));
    return nullptr;
  }
  listen_to_nvtx();
  return std::unique_ptr<CuptiCollector>(new CuptiCollector());
}

CuptiCollector::~CuptiCollector() {
  for (const CUpti_ActivityKind kind : kKinds) cuptiActivityDisable(kind);
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  cuptiUnsubscribe(subscriber);
  cuptiFinalize();
}

void CuptiCollector::flush() {
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");  // CUPTI keeps back unfinished records
  // Without the flag CUPTI keeps any buffer with an incomplete record, and so the last records of the step.
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  for (const auto& [buffer, valid] : buffers().take_filled()) {
    read_buffer(buffer, valid, recorded_);
    std::size_t dropped = 0;
    if (cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped) == CUPTI_SUCCESS) {
      recorded_.dropped += static_cast<std::int64_t>(dropped);
    }
    buffers().give_back(buffer);
  }
}

void CuptiCollector::step_begins(int /*index*/) {
  recorded_ = {};
  flush();  // records since the last step belong to none
  dropped_ += recorded_.dropped;
  recorded_ = {};
  windows_.clear();
}

void CuptiCollector::action_begins(const Action& action, Bytes /*message*/) {
  windows_.push_back({action, ++number_, monotonic_seconds(), {}});
  cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, number_);
}

void CuptiCollector::action_goes_on(const Action& action) {
  const auto window = std::find_if(windows_.rbegin(), windows_.rend(),
                                   [&](const auto& begun) { return begun.action == action; });
  if (window == windows_.rend()) return;
  cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, nullptr);
  cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, window->external);
}

void CuptiCollector::action_ends(const Action& action) {
  cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, nullptr);
  // The first action of an overlapped pair began before the second and ends before it.
  const auto window = std::find_if(windows_.rbegin(), windows_.rend(),
                                   [&](const auto& begun) { return begun.action == action; });
  if (window != windows_.rend()) window->host_end = monotonic_seconds();
}

void CuptiCollector::step_ends(Seconds /*origin*/, std::vector<Event>& /*events*/,
                               Seconds& /*tensor_communication*/) {
  const std::int64_t before = recorded_.dropped;
  flush();
  dropped_ += recorded_.dropped - before;
}

}  // namespace plumbline

// A management library with one GPU whose clock falls with every look.
#include <ctime>

namespace {
int looks = 0;
struct Memory {
  unsigned long long total, free, used;
};
}  // namespace

extern "C" {
int nvmlInit_v2() {
  return 0;
}
int nvmlShutdown() {
  return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) {
  *device = &looks;
  return bus[0] == '0' ? 0 : 6;  // NVML_ERROR_NOT_FOUND
}
int nvmlDeviceGetMemoryInfo(void* /*device*/, void* info) {
  *static_cast<Memory*>(info) = {1000, 400, 600};
  return 0;
}
int nvmlDeviceGetClockInfo(void* /*device*/, int kind, unsigned* mhz) {
  *mhz = kind == 1 ? 1980U - 10U * static_cast<unsigned>(looks++) : 2619U;
  return 0;
}
int nvmlDeviceGetPowerUsage(void* /*device*/, unsigned* milliwatt) {
  *milliwatt = 700'000;
  return 0;
}
// 650 W on average, between the peaks that power readings see.
int nvmlDeviceGetTotalEnergyConsumption(void* /*device*/, unsigned long long* millijoule) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const double seconds = static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  *millijoule = static_cast<unsigned long long>(650e3 * seconds);
  return 0;
}
int nvmlDeviceGetTemperature(void* /*device*/, int /*sensor*/, unsigned* celsius) {
  *celsius = 66;
  return 0;
}
int nvmlDeviceGetCurrPcieLinkWidth(void* /*device*/, unsigned* width) {
  *width = 8;
  return 0;
}
int nvmlDeviceGetMaxPcieLinkWidth(void* /*device*/, unsigned* width) {
  *width = 16;
  return 0;
}
int nvmlDeviceGetTotalEccErrors(void* /*device*/, int kind, int counter, unsigned long long* count) {
  *count = kind == 1 && counter == 0 ? 2 : 5;
  return 0;
}
int nvmlDeviceGetNvLinkState(void* /*device*/, unsigned link, unsigned* active) {
  *active = link == 1 ? 0 : 1;
  return link < 4 ? 0 : 2;  // NVML_ERROR_INVALID_ARGUMENT
}
// The newer name is not there, as in older drivers. Idle, and the power cap.
int nvmlDeviceGetCurrentClocksThrottleReasons(void* /*device*/, unsigned long long* bits) {
  *bits = 0x1 | 0x4;
  return 0;
}
}

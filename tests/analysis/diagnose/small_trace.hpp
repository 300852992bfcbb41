// Small Chrome traces, written by hand.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

namespace plumbline {

/// Slices of a trace in microseconds, as PyTorch's profiler writes them.
class SmallTrace {
 public:
  explicit SmallTrace(int rank = 0) : rank_(rank) {}

  SmallTrace& slice(const std::string& category, const std::string& name, const std::string& thread,
                    double begin, double duration, const std::string& arguments = "") {
    events_.push_back(fmt::format(
        R"({{"ph":"X","cat":"{}","name":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{{}}}}})",
        category, name, category == "kernel" || category.starts_with("gpu_") ? 0 : 1000, thread, begin,
        duration, arguments));
    return *this;
  }
  SmallTrace& step(int number, double begin, double duration) {
    return slice("user_annotation", fmt::format("ProfilerStep#{}", number), "1", begin, duration);
  }
  /// A kernel on a stream, with the operator and the call that launch it.
  SmallTrace& launched(const std::string& op, const std::string& kernel, const std::string& stream, double at,
                       double begin, double duration, const std::string& shapes = "") {
    const int id = next_++;
    slice("cpu_op", op, "1", at, 4, shapes.empty() ? "" : fmt::format(R"("Input Dims":{})", shapes));
    slice("cuda_runtime", "cudaLaunchKernel", "1", at + 1, 2, fmt::format(R"("correlation":{})", id));
    return slice("kernel", kernel, stream, begin, duration,
                 fmt::format(R"("correlation":{},"stream":{})", id, stream));
  }
  /// A collective's kernel with NCCL's arguments.
  SmallTrace& collective(const std::string& kind, const std::string& group, double begin, double duration,
                         int elements = 1024, const std::string& ranks = "[0, 1]") {
    return slice(
        "kernel", "ncclDevKernel_" + kind, "20", begin, duration,
        fmt::format(R"("Collective name":"{}","Process Group Name":"7","Process Group Description":"{}",)"
                    R"("Process Group Ranks":"{}","Group size":2,"dtype":"BFloat16",)"
                    R"("In msg nelems":{},"Out msg nelems":{})",
                    kind, group, ranks, elements, elements));
  }
  std::string text(const std::string& header = "") const {
    return fmt::format(
        R"({{"schemaVersion":1,"distributedInfo":{{"backend":"nccl","rank":{},"world_size":2}},{})"
        "\"traceEvents\":[\n{}\n]}}",
        rank_, header, fmt::format("{}", fmt::join(events_, ",\n")));
  }

 private:
  int rank_;
  int next_ = 1;
  std::vector<std::string> events_;
};

}  // namespace plumbline

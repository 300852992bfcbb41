// The categories of a step's time: every moment is in one, and their sum is the step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace plumbline {

enum class TimeShare : std::uint8_t {
  product,    // matrix products and convolutions
  attention,  // scores, softmax and values together
  other,      // all other operators
  tensor,     // exposed communication of tensor, context and expert parallelism
  pipeline,   // exposed transfers between pipeline stages
  data,       // exposed communication of data parallelism
  bubble,     // waits for other pipeline stages
  host,       // waits for the host
  optimizer,
  loading,  // waits for data
  garbage,  // runs of Python's garbage collector
  unknown,
};
inline constexpr std::size_t kTimeShares = 12;

struct TimeShareName {
  std::string_view key;    // in JSON
  std::string_view title;  // for people
};
inline constexpr std::array<TimeShareName, kTimeShares> kTimeShareNames = {{
    {"products_s", "products"},
    {"attention_s", "attention"},
    {"other_operators_s", "other operators"},
    {"exposed_tensor_s", "exposed TP/CP/EP communication"},
    {"exposed_pipeline_s", "exposed PP communication"},
    {"exposed_data_s", "exposed DP communication"},
    {"bubble_s", "pipeline bubble (idle)"},
    {"host_s", "waits for the host"},
    {"optimizer_s", "optimizer"},
    {"data_loading_s", "data loading"},
    {"garbage_collection_s", "garbage collection"},
    {"unknown_s", "unknown"},
}};

constexpr const TimeShareName& name_of(TimeShare share) {
  return kTimeShareNames[static_cast<std::size_t>(share)];
}

/// Seconds by category.
struct SharedTime {
  std::array<double, kTimeShares> seconds{};

  double& operator[](TimeShare share) { return seconds[static_cast<std::size_t>(share)]; }
  double operator[](TimeShare share) const { return seconds[static_cast<std::size_t>(share)]; }
  double sum() const {
    double all = 0;
    for (const double each : seconds) all += each;
    return all;
  }
};

}  // namespace plumbline

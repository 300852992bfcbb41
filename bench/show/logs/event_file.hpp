// TensorBoard's event files: scalars by tag and step.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

/// A point of a curve. TensorBoard keeps values in single precision.
struct Scalar {
  std::string tag;
  std::int64_t step = 0;  // from 1
  double value = 0;       // finite
  double unix_s = 0;
};

/// Castagnoli's CRC, as TFRecord files have it (RFC 3720, appendix B.4).
std::uint32_t crc32c(std::string_view bytes);

/// Content of a file "events.out.tfevents.…": TFRecords of TensorFlow's Event messages (event.proto), the
/// version first.
std::string event_file(const std::vector<Scalar>& scalars);

}  // namespace plumbline

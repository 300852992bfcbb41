// libFuzzer target: any bytes are a launch file that can be read, no launch file, or throw InputError.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/error.hpp"
#include "core/launch_files/launch_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace plumbline;
  try {
    const auto launch =
        read_launch_file(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz.sh");
    if (launch) launch->require_modelled();
  } catch (const InputError&) {
  }
  return 0;
}

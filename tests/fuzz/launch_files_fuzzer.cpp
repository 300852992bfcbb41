// libFuzzer target: any bytes are a launch file that can be read, no launch file, or throw InputError. The
// number of bytes chooses the file's name.
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "core/launch_files/launch_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace plumbline;
  constexpr const char* kNames[] = {"fuzz", "fuzz.sh", "fuzz.toml"};
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // A file that is named in it holds the part behind its first '{'.
  const auto named = [&](const std::string& /*path*/) {
    const std::size_t at = text.find('{');
    return at == std::string_view::npos ? std::nullopt : std::optional<std::string>(text.substr(at));
  };
  try {
    const auto launch = read_launch_file(text, kNames[size % std::size(kNames)], named);
    if (launch) launch->require_modelled();
  } catch (const InputError&) {
  }
  return 0;
}

#include "core/files/block_scales.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {

void attach_block_scales(const std::string& file, std::map<std::string, StoredTensor>& tensors) {
  const std::string_view suffix = kScalesSuffix;
  for (auto entry = tensors.begin(); entry != tensors.end();) {
    const auto& [name, scales] = *entry;
    if (!name.ends_with(suffix)) {
      ++entry;
      continue;
    }
    const auto complain = [&](const std::string& found, const std::string& expected) {
      throw InputError(fmt::format("{}: tensor \"{}\": found {}, expected {}", file, printable(entry->first),
                                   found, expected));
    };
    const auto matrix = tensors.find(name.substr(0, name.size() - suffix.size()));
    if (matrix == tensors.end() || matrix->second.type != StoredType::fp8_e4m3 ||
        matrix->second.shape.size() != 2)
      complain("block scales", "an F8_E4M3 matrix of that name without " + std::string(suffix));
    const std::vector<std::int64_t>& shape = matrix->second.shape;
    const std::vector<std::int64_t> expected = {scaled_blocks(shape[0]), scaled_blocks(shape[1])};
    if (scales.type != StoredType::fp32 || scales.shape != expected) {
      complain(fmt::format("{} of shape [{}]", name_of(scales.type), fmt::join(scales.shape, ", ")),
               fmt::format("F32 of shape [{}]: a factor for every {} x {} elements of the matrix",
                           fmt::join(expected, ", "), kScaledBlock, kScaledBlock));
    }
    matrix->second.scales = scales.bytes;
    entry = tensors.erase(entry);
  }
}

}  // namespace plumbline

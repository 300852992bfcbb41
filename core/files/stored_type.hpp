// Element types of tensor files.
#pragma once

#include <cstdint>
#include <string_view>

namespace plumbline {

/// Element types that can be read. Models consist of fp32, bf16 and fp16, or of fp8_e4m3 with scales.
enum class StoredType : std::uint8_t { fp32, bf16, fp16, fp8_e4m3, int32, int64 };
std::int64_t size_of(StoredType type);
std::string_view name_of(StoredType type);  // "F32", "BF16", "F16", "F8_E4M3", "I32", "I64"

}  // namespace plumbline

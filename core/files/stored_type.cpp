#include "core/files/stored_type.hpp"

namespace plumbline {

std::int64_t size_of(StoredType type) {
  switch (type) {
    case StoredType::fp8_e4m3:
      return 1;
    case StoredType::bf16:
    case StoredType::fp16:
      return 2;
    case StoredType::fp32:
    case StoredType::int32:
      return 4;
    case StoredType::int64:
      return 8;
  }
  return 0;
}

std::string_view name_of(StoredType type) {
  switch (type) {
    case StoredType::fp32:
      return "F32";
    case StoredType::bf16:
      return "BF16";
    case StoredType::fp16:
      return "F16";
    case StoredType::fp8_e4m3:
      return "F8_E4M3";
    case StoredType::int32:
      return "I32";
    case StoredType::int64:
      return "I64";
  }
  return "?";
}

}  // namespace plumbline

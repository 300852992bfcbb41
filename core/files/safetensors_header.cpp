#include "core/files/safetensors_header.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxRank = 8;
constexpr std::array<StoredType, 6> kTypes = {StoredType::fp32,     StoredType::bf16,  StoredType::fp16,
                                              StoredType::fp8_e4m3, StoredType::int32, StoredType::int64};

/// Takes the header apart as it is parsed. No tree is built: only the format's own objects can nest, and
/// repeated names are found.
class HeaderReader final : public nlohmann::json_sax<Json> {
 public:
  explicit HeaderReader(const std::string& file) : file_(file) {}

  std::vector<HeaderEntry> take() { return std::move(entries_); }

  bool null() override { return unexpected("null"); }
  bool boolean(bool /*value*/) override { return unexpected("true or false"); }
  bool number_integer(number_integer_t value) override {
    return unexpected(fmt::format("{}", value));  // only negative numbers come here
  }
  bool number_float(number_float_t /*value*/, const string_t& text) override { return unexpected(text); }
  bool binary(binary_t& /*value*/) override { return unexpected("binary"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (depth_ != 3) return unexpected(fmt::format("{}", value));
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) ||
        numbers_.size() >= kMaxRank) {
      return unexpected(fmt::format("{}", value));
    }
    numbers_.push_back(static_cast<std::int64_t>(value));
    return true;
  }
  bool string(string_t& value) override {
    if (in_metadata_ && depth_ == 2) return true;
    if (depth_ != 2 || field_ != "dtype") return unexpected(value);
    for (const StoredType type : kTypes) {
      if (value != name_of(type)) continue;
      entries_.back().type = type;
      return true;
    }
    fail(fmt::format("dtype: found \"{}\", supported: F32, BF16, F16, F8_E4M3, I32, I64", printable(value)));
  }
  bool start_object(std::size_t /*elements*/) override {
    if (++depth_ > 2) return unexpected("a mapping");
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ == 1) {
      in_metadata_ = name == "__metadata__";
      if (!names_.insert(name).second) {
        throw InputError(fmt::format("{}: tensor \"{}\": given twice", file_, printable(name)));
      }
      fields_.clear();
      if (!in_metadata_) entries_.emplace_back().name = name;
    } else {
      field_ = name;
      if (!in_metadata_ && !fields_.insert(name).second) {
        fail(fmt::format("{}: given twice", printable(name)));
      }
    }
    return true;
  }
  bool end_object() override {
    if (depth_-- == 2 && !in_metadata_) {
      for (const char* field : {"dtype", "shape", "data_offsets"}) {
        if (!fields_.contains(field)) fail(fmt::format("{}: missing", field));
      }
    }
    return true;
  }
  bool start_array(std::size_t /*elements*/) override {
    const bool expected = depth_ == 2 && !in_metadata_ && (field_ == "shape" || field_ == "data_offsets");
    if (!expected) return unexpected("a list");
    ++depth_;
    numbers_.clear();
    return true;
  }
  bool end_array() override {
    --depth_;
    HeaderEntry& entry = entries_.back();
    if (field_ == "shape") {
      entry.shape = numbers_;
    } else {
      if (numbers_.size() != 2) {
        fail(fmt::format("data_offsets: found {} numbers, expected begin and end", numbers_.size()));
      }
      entry.begin = numbers_[0];
      entry.end = numbers_[1];
    }
    return true;
  }
  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    throw InputError(fmt::format("{}: header is not valid JSON at byte {}, expected an object of tensors",
                                 file_, position + 8));
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    const std::string name = entries_.empty() ? "" : printable(entries_.back().name);
    throw InputError(fmt::format("{}: tensor \"{}\": {}", file_, name, what));
  }
  bool unexpected(const std::string& found) const {
    if (depth_ == 0) {
      throw InputError(fmt::format("{}: header: found {}, expected a JSON object", file_, printable(found)));
    }
    if (depth_ == 1 || in_metadata_) {
      throw InputError(
          fmt::format("{}: header: found {} in place of a tensor's {{dtype, shape, data_offsets}} or a text "
                      "of the metadata",
                      file_, printable(found)));
    }
    fail(
        fmt::format("{}: found {}, expected dtype as a text, shape as at most {} and data_offsets as two "
                    "whole numbers from 0",
                    printable(field_), printable(found), kMaxRank));
  }

  const std::string& file_;
  std::vector<HeaderEntry> entries_;
  std::set<std::string> names_;
  std::set<std::string> fields_;  // of the current tensor
  std::vector<std::int64_t> numbers_;
  std::string field_;
  bool in_metadata_ = false;
  int depth_ = 0;
};

void check_entry(const HeaderEntry& entry, std::int64_t data_bytes, const std::string& file) {
  const std::string what = fmt::format("{}: tensor \"{}\": ", file, printable(entry.name));
  if (entry.begin > entry.end || entry.end > data_bytes) {
    throw InputError(fmt::format("{}data_offsets [{}, {}] do not lie in the {} bytes of data", what,
                                 entry.begin, entry.end, data_bytes));
  }
  const std::int64_t elements = elements_of(entry.shape);
  std::int64_t bytes = 0;
  if (elements < 0 || __builtin_mul_overflow(elements, size_of(entry.type), &bytes)) {
    throw InputError(fmt::format("{}shape [{}] overflows", what, fmt::join(entry.shape, ", ")));
  }
  if (bytes != entry.end - entry.begin) {
    throw InputError(fmt::format("{}shape [{}] of {} needs {} bytes, data_offsets give {}", what,
                                 fmt::join(entry.shape, ", "), name_of(entry.type), bytes,
                                 entry.end - entry.begin));
  }
}

}  // namespace

std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(elements, size, &elements)) return -1;
  }
  return elements;
}

std::vector<HeaderEntry> parse_safetensors_header(std::string_view json, std::int64_t data_bytes,
                                                  const std::string& file) {
  HeaderReader reader(file);
  Json::sax_parse(json, &reader);
  std::vector<HeaderEntry> entries = reader.take();
  for (const HeaderEntry& entry : entries) check_entry(entry, data_bytes, file);

  std::sort(entries.begin(), entries.end(), [](const HeaderEntry& a, const HeaderEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::int64_t covered = 0;
  for (const HeaderEntry& entry : entries) {
    if (entry.begin != covered) {
      throw InputError(fmt::format("{}: tensor \"{}\": data_offsets begin at {}, expected {}: {}", file,
                                   printable(entry.name), entry.begin, covered,
                                   entry.begin < covered ? "tensors overlap" : "bytes belong to no tensor"));
    }
    covered = entry.end;
  }
  if (covered != data_bytes) {
    throw InputError(
        fmt::format("{}: {} bytes after the last tensor belong to no tensor", file, data_bytes - covered));
  }
  return entries;
}

}  // namespace plumbline

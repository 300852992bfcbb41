#include "core/launch_files/arguments/quantized_names.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string>

namespace plumbline {
namespace {

constexpr std::string_view kQuantized[] = {
    "fp8",  "aqlm", "autoround", "awq",  "bnb",  "eetq",  "exl2", "fbgemm", "fp4",    "gguf", "gptq", "higgs",
    "hqq",  "int2", "int3",      "int4", "int8", "mxfp4", "nf4",  "nvfp4",  "quanto", "quip", "spqr", "vptq",
    "1bit", "2bit", "3bit",      "4bit", "8bit", "w4a16", "w4a4", "w4a8",   "w8a16",  "w8a8"};

/// Words from `first` on.
std::string_view word_of(std::string_view name, const std::string_view* first) {
  name = name.substr(name.find_last_of('/') + 1);
  while (!name.empty()) {
    const std::size_t end = std::min(name.find_first_of("-_. "), name.size());
    std::string word;
    for (const char c : name.substr(0, end))
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (std::find(first, std::end(kQuantized), word) != std::end(kQuantized)) return name.substr(0, end);
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return {};
}

}  // namespace

std::string_view quantization_word(std::string_view name) {
  return word_of(name, std::begin(kQuantized));
}

std::string_view lossy_quantization_word(std::string_view name) {
  return word_of(name, std::begin(kQuantized) + 1);
}

}  // namespace plumbline

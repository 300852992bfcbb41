#include "core/trace/collective_trace.hpp"

namespace plumbline {
namespace {

constexpr std::array<std::string_view, kVocabularyCalls> kNames = {
    "C0 broadcast X", "C1 all-gather statistics", "C2 all-reduce dX", "I1 all-reduce embedded",
    "I2 broadcast gradient"};

}  // namespace

std::string_view name_of(VocabularyCall call) {
  return kNames[static_cast<std::size_t>(call)];
}

std::string_view short_name(VocabularyCall call) {
  return name_of(call).substr(0, 2);
}

Seconds sum_of(const VocabularySeconds& seconds) {
  Seconds sum;
  for (const Seconds each : seconds) sum += each;
  return sum;
}

}  // namespace plumbline

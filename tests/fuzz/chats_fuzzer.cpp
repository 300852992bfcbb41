// libFuzzer target: any bytes are a file of tokenised chats or throw InputError; all that was read lies
// within the vocabulary, and makes packs.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "core/files/chat_packs.hpp"
#include "tests/fuzz/scratch_files.hpp"

namespace {

using namespace plumbline;

constexpr std::int64_t kVocab = 64;
constexpr std::int64_t kLength = 32;

void check(const ChatData& chats) {
  if (chats.size() < 1) std::abort();
  for (std::int64_t each = 0; each < chats.size(); ++each) {
    std::int64_t targets = 0;
    if (chats.length(each) < 2 || chats.length(each) > kLength) std::abort();
    for (const std::int32_t id : chats.ids(each)) {
      if (id < 0 || id >= kVocab) std::abort();
    }
    for (std::int64_t j = 0; j < chats.length(each); ++j) targets += chats.answered(each, j) ? 1 : 0;
    if (targets == 0 || chats.answered(each, 0)) std::abort();
  }
}

void check_packs(const ChatData& chats, RunConfig config) {
  for (const bool packed : {false, true}) {
    config.batch.packed_sequence = packed;
    const ChatOrder order = order_of(chats, config);
    if (order.samples.empty()) std::abort();
    for (const std::vector<std::int64_t>& sequence : order.sequences) {
      std::int64_t tokens = 0;
      for (const std::int64_t each : sequence) tokens += chats.length(each);
      if (tokens < 2 || tokens > kLength) std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const RunConfig kConfig = [] {
    RunConfig config;
    config.batch.seq_length = kLength;
    config.batch.global_batch_size = 4;
    return config;
  }();
  const std::string path = fuzz::scratch().write("chats.jsonl", {reinterpret_cast<const char*>(data), size});
  try {
    const ChatData chats(path, kVocab, kLength);
    check(chats);
    check_packs(chats, kConfig);
  } catch (const InputError&) {
  }
  return 0;
}

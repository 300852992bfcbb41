// libFuzzer target: any bytes are a request of `plumbline ask` whose reply is one line of JSON with its
// schema and id. Searches end at once.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "bench/ask/answer.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace plumbline;
  const std::string_view request(reinterpret_cast<const char*>(data), size);
  const AskCancels at_once{[](std::string_view) { return true; }, [](std::string_view) { return true; }};
  const std::string reply = answer(request, {}, at_once);
  if (reply.find('\n') != std::string::npos) std::abort();
  const auto json = nlohmann::json::parse(reply, nullptr, false);
  if (!json.is_object() || json.value("schema", 0) != kAskSchema || !json.contains("id")) std::abort();
  if (json.contains("error") && json.value("exit_code", 0) == 4) std::abort();  // nobody's fault but ours
  if (json.contains("error") && reply.find("json.exception") != std::string::npos) std::abort();
  cancelled_id(request);
  return 0;
}

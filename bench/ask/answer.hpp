// Questions about configurations as JSON, answered one by one: `plumbline ask` and the Python package.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace plumbline {

/// Version of requests and replies (ask.schema.json).
inline constexpr int kAskSchema = 1;
/// Longest request in bytes.
inline constexpr std::size_t kLongestRequest = std::size_t{1} << 20;

/// Called now and then by a search, size, comparison or validation with what is done of all (0: unknown), one
/// call at a time, maybe by another thread. An exception ends it.
using AskProgress = std::function<void(int done, int all)>;

/// Searches that other requests cancel, by their ids as written.
struct AskCancels {
  std::function<bool(std::string_view id)> wanted{};  // true once the search is to end; asked often
  std::function<bool(std::string_view id)> done{};    // true if one with this id has ended so
};

/// The reply to one request, both one JSON object on one line without its end. Every failure is a reply with
/// `error`, one line for people, and `exit_code`, the code that the program would end with. Several threads
/// may ask at once.
std::string answer(std::string_view request, const AskProgress& progress = {},
                   const AskCancels& cancels = {});

/// The id, as written, of the search that a request cancels; empty for any other request.
std::string cancelled_id(std::string_view request);

/// The reply to a request of more than kLongestRequest bytes, of which only the length is known.
std::string refuse_long_request(std::size_t bytes);

/// The JSON schema of requests and replies.
std::string_view ask_schema();

}  // namespace plumbline

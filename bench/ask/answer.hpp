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

/// Called now and then by a search or a validation, with what is done of all. An exception ends it.
using AskProgress = std::function<void(int done, int all)>;

/// The reply to one request, both one JSON object on one line without its end. Every failure is a reply with
/// `error`, one line for people, and `exit_code`, the code that the program would end with. Several threads
/// may ask at once.
std::string answer(std::string_view request, const AskProgress& progress = {});

/// The reply to a request of more than kLongestRequest bytes, of which only the length is known.
std::string refuse_long_request(std::size_t bytes);

/// The JSON schema of requests and replies.
std::string_view ask_schema();

}  // namespace plumbline

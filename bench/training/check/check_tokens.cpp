#include "bench/training/check/check_tokens.hpp"

#include <fmt/format.h>

#include <charconv>

#include "core/base/error.hpp"
#include "core/base/text_input.hpp"
#include "core/files/token_data.hpp"

namespace plumbline::training {
namespace {

constexpr std::size_t kMostTextBytes = std::size_t{64} << 20;
constexpr std::string_view kBetween = " \t\r\n,";

std::vector<std::int32_t> ids_of_text(const std::string& file, std::int64_t vocab) {
  const std::string text = read_text_file(file, kMostTextBytes);
  std::vector<std::int32_t> ids;
  for (std::size_t at = text.find_first_not_of(kBetween); at != std::string::npos;
       at = text.find_first_not_of(kBetween, at)) {
    const std::size_t end = std::min(text.find_first_of(kBetween, at), text.size());
    std::int32_t id = -1;
    const auto [stopped, error] = std::from_chars(text.data() + at, text.data() + end, id);
    if (error != std::errc() || stopped != text.data() + end || id < 0 || id >= vocab) {
      throw InputError(
          fmt::format("{}: token {} is \"{}\", expected an id from 0 to {} (the model's vocabulary)",
                      printable(file, 400), ids.size(), printable(text.substr(at, end - at)), vocab - 1));
    }
    ids.push_back(id);
    at = end;
  }
  if (ids.size() < 2)
    throw InputError(fmt::format("{}: {} token ids, expected at least 2", printable(file, 400), ids.size()));
  return ids;
}

}  // namespace

std::vector<std::vector<std::int32_t>> check_tokens(const std::string& file, std::int64_t vocab,
                                                    std::int64_t seq_length, int sequences,
                                                    std::uint64_t seed) {
  std::vector<std::vector<std::int32_t>> made(static_cast<std::size_t>(sequences));
  if (!file.ends_with(".txt")) {
    const TokenSource source(file, vocab, seq_length, seed);
    for (std::size_t i = 0; i < made.size(); ++i) made[i] = source.sample(static_cast<std::int64_t>(i));
    return made;
  }
  const std::vector<std::int32_t> ids = ids_of_text(file, vocab);
  std::size_t at = 0;
  for (std::vector<std::int32_t>& sequence : made) {
    sequence.reserve(static_cast<std::size_t>(seq_length) + 1);
    for (std::int64_t i = 0; i <= seq_length; ++i)
      sequence.push_back(ids[(at + static_cast<std::size_t>(i)) % ids.size()]);
    at += static_cast<std::size_t>(seq_length);
  }
  return made;
}

}  // namespace plumbline::training

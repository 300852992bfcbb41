// Comparing ranks: a hash of everything first, texts only when it differs.
#include "core/backends/mpi/agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "core/backends/mpi/check.hpp"
#include "core/base/error.hpp"
#include "core/base/hash.hpp"
#include "core/base/one_line.hpp"

namespace plumbline {
namespace {

constexpr char kEndOfName = '\x1e';
constexpr char kEndOfValue = '\x1f';

std::string packed(const RankFacts& facts) {
  std::string text;
  for (const auto& [name, value] : facts)
    text.append(name).append(1, kEndOfName).append(value).append(1, kEndOfValue);
  return text;
}

RankFacts unpacked(std::string_view text) {
  RankFacts facts;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(kEndOfValue, begin), text.size());
    const std::string_view pair = text.substr(begin, end - begin);
    const std::size_t name = std::min(pair.find(kEndOfName), pair.size());
    facts.emplace_back(pair.substr(0, name), pair.substr(std::min(name + 1, pair.size())));
    begin = end + 1;
  }
  return facts;
}

/// Texts of all ranks on rank 0; nothing on the others.
std::vector<std::string> gather_texts(const std::string& mine) {
  int rank = 0;
  int ranks = 1;
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &ranks), "MPI_Comm_size");
  const int length = static_cast<int>(mine.size());
  std::vector<int> lengths(static_cast<std::size_t>(ranks));
  check_mpi(MPI_Gather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Gather");
  std::vector<int> places(lengths.size());
  int all = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    places[i] = all;
    all += lengths[i];
  }
  std::string bytes(static_cast<std::size_t>(rank == 0 ? all : 0), ' ');
  check_mpi(MPI_Gatherv(mine.data(), length, MPI_CHAR, bytes.data(), lengths.data(), places.data(), MPI_CHAR,
                        0, MPI_COMM_WORLD),
            "MPI_Gatherv");
  std::vector<std::string> texts;
  for (std::size_t i = 0; rank == 0 && i < lengths.size(); ++i) {
    texts.push_back(bytes.substr(static_cast<std::size_t>(places[i]), static_cast<std::size_t>(lengths[i])));
  }
  return texts;
}

}  // namespace

std::string first_difference(const std::vector<RankFacts>& ranks, const std::vector<std::string>& hosts) {
  const auto place = [&](std::size_t rank) { return fmt::format("rank {} on {}", rank, hosts[rank]); };
  const auto value_in = [](const RankFacts& facts, const std::string& name) {
    const auto known =
        std::find_if(facts.begin(), facts.end(), [&](const auto& fact) { return fact.first == name; });
    return known == facts.end() ? "nothing" : known->second;
  };
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    for (const RankFacts& facts : {ranks[rank], ranks.front()}) {
      for (const auto& fact : facts) {
        const std::string& name = fact.first;
        const std::string own = value_in(ranks.front(), name);
        const std::string other = value_in(ranks[rank], name);
        if (own != other) {
          return fmt::format(
              "{}: {} has {}, {} has {}; expected the same program and the same files on every host", name,
              place(0), printable(own, 200), place(rank), printable(other, 200));
        }
      }
    }
  }
  return "";
}

void require_same_on_all_ranks(const RankFacts& facts) {
  const std::string mine = packed(facts);
  const std::uint64_t hash = fnv1a(mine);
  // The smallest hash and the smallest complement: equal hashes give complements of each other.
  const std::array<std::uint64_t, 2> both = {hash, ~hash};
  std::array<std::uint64_t, 2> least{};
  check_mpi(MPI_Allreduce(both.data(), least.data(), 2, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD),
            "MPI_Allreduce");
  if (least[0] == ~least[1]) return;
  std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
  int length = 0;
  check_mpi(MPI_Get_processor_name(name.data(), &length), "MPI_Get_processor_name");
  const std::vector<std::string> texts = gather_texts(mine);
  const std::vector<std::string> hosts =
      gather_texts(std::string(name.data(), static_cast<std::size_t>(length)));
  if (!texts.empty()) {
    std::vector<RankFacts> ranks;
    ranks.reserve(texts.size());
    for (const std::string& text : texts) ranks.push_back(unpacked(text));
    throw InputError(first_difference(ranks, hosts));
  }
  check_mpi(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");  // which rank 0 never enters: it ends all
}

}  // namespace plumbline

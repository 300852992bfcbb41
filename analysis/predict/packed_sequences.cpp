#include "analysis/predict/packed_sequences.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <numeric>

#include "analysis/step/software_of.hpp"
#include "core/base/error.hpp"
#include "core/base/text_input.hpp"
#include "core/config/common_vocabulary.hpp"
#include "core/files/chat_packs.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kMostLengthBytes = std::size_t{16} << 20U;
constexpr double kMostSequenceParts = 1 << 27;  // sequences of the steps that are gone through × ranks

std::string_view without_blanks(std::string_view line) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t first = line.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(kBlank) - first + 1);
}

void append_document(std::int64_t length, std::int64_t& room, PackedSequences& packed) {
  if (packed.first_of.empty() || length > room) {
    packed.first_of.push_back(packed.lengths.size());
    room = packed.seq_length;
  }
  room -= length;
  packed.lengths.push_back(length);
  packed.tokens += length;
  packed.longest = std::max(packed.longest, length);
}

/// Pairs of tokens by the ranks' parts of a sequence. A token counts half a pair with itself, as elsewhere.
class PairCounter {
 public:
  PairCounter(const PackedSequences& packed, int parts, bool balanced)
      : packed_(packed), parts_(parts), balanced_(balanced) {
    chunk_ = parts > 1 ? packed.seq_length / (2 * std::int64_t{parts}) : packed.seq_length;
  }

  /// Adds those of a sequence to `sum`.
  void add(std::size_t sequence, std::vector<double>& sum) const {
    const std::size_t end =
        sequence + 1 < packed_.first_of.size() ? packed_.first_of[sequence + 1] : packed_.lengths.size();
    std::int64_t begins = 0;
    for (std::size_t i = packed_.first_of[sequence]; i < end; ++i) {
      const std::int64_t ends = begins + packed_.lengths[i];
      for (std::int64_t chunk = begins / chunk_; chunk * chunk_ < ends; ++chunk) {
        const auto from = static_cast<double>(std::max(begins, chunk * chunk_) - begins);
        const auto to = static_cast<double>(std::min(ends, (chunk + 1) * chunk_) - begins);
        sum[part_of(chunk)] += (to * to - from * from) / 2;
      }
      begins = ends;
    }
  }

 private:
  std::size_t part_of(std::int64_t chunk) const {
    if (parts_ == 1) return 0;
    if (!balanced_) return static_cast<std::size_t>(chunk / 2);
    return static_cast<std::size_t>(std::min(chunk, 2 * std::int64_t{parts_} - 1 - chunk));
  }

  const PackedSequences& packed_;
  int parts_;
  bool balanced_;
  std::int64_t chunk_ = 1;
};

/// Calls per sequence. Lengths between two powers of the root of two are one, with as many pairs of tokens.
std::vector<PackedLength> calls_by_length(const PackedSequences& packed) {
  struct Sums {
    double tokens = 0, squares = 0;
  };
  std::map<int, Sums> groups;
  for (const std::int64_t length : packed.lengths) {
    const auto tokens = static_cast<double>(length);
    Sums& group = groups[static_cast<int>(std::floor(2 * std::log2(tokens)))];
    group.tokens += tokens;
    group.squares += tokens * tokens;
  }
  std::vector<PackedLength> calls;
  for (const auto& [ignored, group] : groups) {
    const double length = std::round(group.squares / group.tokens);
    const double count = group.squares / (length * length);
    calls.push_back({static_cast<std::int64_t>(length), count / static_cast<double>(packed.first_of.size())});
  }
  return calls;
}

double all_pairs(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

void refuse_other_masks(const RunConfig& config) {
  const auto refuse = [](const std::string& found) {
    throw InputError(
        fmt::format("--sequence-lengths: found {}, expected plain causal attention, whose pairs of tokens "
                    "follow from the "
                    "lengths alone",
                    found));
  };
  const auto& teacher = config.distillation.teacher;
  if (config.model.window.size > 0 || (teacher && teacher->window.size > 0))
    refuse("a model with a sliding window");
  if (config.batch.prefix_length > 0) refuse("a prefix_length");
  if (config.numerics.attention_backend == AttentionBackend::unfused) refuse("attention_backend unfused");
}

}  // namespace

PackedSequences pack_sequences(std::string_view text, const std::string& name, std::int64_t seq_length) {
  PackedSequences packed;
  packed.seq_length = seq_length;
  std::int64_t room = 0;
  std::size_t number = 0;
  while (!text.empty()) {
    ++number;
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = without_blanks(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    std::int64_t length = 0;
    const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), length);
    if (error != std::errc() || stop != line.data() + line.size() || length < 1 || length > seq_length) {
      throw InputError(fmt::format(
          "{}:{}: found \"{}\", expected the tokens of a document: a whole number from 1 to seq_length {}",
          name, number, printable(line), seq_length));
    }
    append_document(length, room, packed);
  }
  if (packed.lengths.empty())
    throw InputError(
        fmt::format("{}: found no lengths, expected the tokens of a document on every line", name));
  return packed;
}

PackedSequences pack_sequences(std::span<const std::int64_t> lengths, const std::string& name,
                               std::int64_t seq_length) {
  PackedSequences packed;
  packed.seq_length = seq_length;
  std::int64_t room = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 1 || lengths[i] > seq_length) {
      throw InputError(fmt::format(
          "{}[{}]: found {}, expected the tokens of a document: a whole number from 1 to seq_length {}", name,
          i, lengths[i], seq_length));
    }
    append_document(lengths[i], room, packed);
  }
  return packed;
}

PackedSequences read_sequence_lengths(const std::string& path, std::int64_t seq_length) {
  return pack_sequences(read_text_file(path, kMostLengthBytes), path, seq_length);
}

PackedSequences read_packed_chats(const RunConfig& config) {
  const ChatData chats(config.files.data, common_vocab(config), config.batch.seq_length);
  const ChatOrder order = order_of(chats, config);
  PackedSequences packed;
  packed.seq_length = config.batch.seq_length;
  for (std::int64_t sample = 0; sample < std::ssize(order.samples); ++sample) {
    packed.first_of.push_back(packed.lengths.size());
    for (const std::int64_t conversation : order.sample(sample)) {
      const std::int64_t length = chats.length(conversation);
      packed.lengths.push_back(length);
      packed.tokens += length;
      packed.longest = std::max(packed.longest, length);
    }
  }
  return packed;
}

PackedWork packed_work(const PackedSequences& packed, const RunConfig& config) {
  refuse_other_masks(config);
  const ParallelConfig& parallel = config.parallel;
  // With heads exchanged all of a group have the same pairs; other software cuts documents evenly.
  const int parts =
      traits_of(software_of(config)).attends_by_chunk ? parallel.context / parallel.head_ranks() : 1;
  const auto sequences = static_cast<std::int64_t>(packed.first_of.size());
  const std::int64_t batch = config.batch.global_batch_size;
  const std::int64_t steps = (sequences + batch - 1) / batch;
  if (static_cast<double>(steps) * static_cast<double>(batch) * parts > kMostSequenceParts) {
    throw InputError(fmt::format(
        "--sequence-lengths: found {} sequences for steps of {} over {} ranks each, expected at most {:.0f} "
        "parts of sequences to count; give fewer lengths or a smaller batch",
        sequences, batch, parts, kMostSequenceParts));
  }
  const PairCounter counter(packed, parts, parallel.cp.load_balance);
  const std::int64_t replicas = parallel.data();
  const std::int64_t size = config.batch.micro_batch_size;
  const std::int64_t microbatches = batch / replicas / size;
  std::vector<double> all(static_cast<std::size_t>(parts));
  double slowest = 0;  // pairs of the ranks that others wait for
  for (std::int64_t step = 0; step < steps; ++step) {
    double slowest_replica = 0;
    for (std::int64_t replica = 0; replica < replicas; ++replica) {
      double pairs = 0;
      for (std::int64_t m = 0; m < microbatches; ++m) {
        std::vector<double> here(static_cast<std::size_t>(parts));
        for (std::int64_t i = 0; i < size; ++i) {
          const std::int64_t number = step * batch + (m * replicas + replica) * size + i;
          counter.add(static_cast<std::size_t>(number % sequences), here);
        }
        pairs += *std::max_element(here.begin(), here.end());
        for (std::size_t part = 0; part < here.size(); ++part) all[part] += here[part];
      }
      slowest_replica = std::max(slowest_replica, pairs);
    }
    slowest += slowest_replica;
  }
  const auto length = static_cast<double>(packed.seq_length);
  const double whole = length * length / 2;  // pairs of a sequence without documents
  // Operator lists count the last rank's pairs.
  const double last =
      parallel.cp.load_balance ? 1.0 / parts : (2.0 * parts - 1) / (static_cast<double>(parts) * parts);
  const auto in_steps = static_cast<double>(steps * batch);
  PackedWork work;
  work.attention.mean = all_pairs(all) / (in_steps * whole);
  work.attention.slowest = slowest * static_cast<double>(replicas) / (in_steps * whole * last);
  if (config.batch.packed_sequence && config.machine.own_step())
    work.attention.lengths = calls_by_length(packed);
  work.by_context_rank = all;
  const double mean = all_pairs(all) / parts;
  for (double& pairs : work.by_context_rank) pairs /= mean;
  return work;
}

std::string describe(const PackedSequences& packed, const PackedWork& work) {
  const auto documents = static_cast<double>(packed.lengths.size());
  const double room = static_cast<double>(packed.first_of.size()) * static_cast<double>(packed.seq_length);
  const auto [least, most] = std::minmax_element(work.by_context_rank.begin(), work.by_context_rank.end());
  return fmt::format(
      "sequence lengths: {} documents of {:.0f} tokens on average, at most {}, in {} sequences of {}, {:.1f} "
      "% "
      "full\n"
      "attention: {:.1f} % of whole sequences' pairs of tokens; the slowest ranks' time is that of {:.1f} "
      "%{}\n",
      packed.lengths.size(), static_cast<double>(packed.tokens) / documents, packed.longest,
      packed.first_of.size(), packed.seq_length, 100 * static_cast<double>(packed.tokens) / room,
      100 * work.attention.mean, 100 * work.attention.slowest,
      work.by_context_rank.size() > 1
          ? fmt::format("; ranks of a sequence have {:.2f} to {:.2f} of their mean", *least, *most)
          : "");
}

}  // namespace plumbline

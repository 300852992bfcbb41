// The token ids that a run trains on: from a file, or seeded synthetic ones. The same sample for the same
// index in every parallel layout.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/mapped_file.hpp"

namespace plumbline {

/// Sample i is seq_length + 1 ids: the first seq_length are the inputs, the last seq_length the targets.
///
/// From a file, the ids are one stream of N: sample i starts at i·seq_length modulo N and wraps around at
/// the end. Files are `.npy` of int32, int64, uint16 or uint32, 1-D or 2-D in C order; anything else is raw
/// little-endian int32. Without a file, id j of sample i comes from the Philox4x32-10 generator (Salmon et
/// al. 2011, doi:10.1145/2063384.2063405) at counter (j / 4, i) under the seed: any sample can be made
/// anywhere.
class TokenSource {
 public:
  /// `path` empty: synthetic. Throws InputError for a file of another form, fewer than 2 ids, or an id
  /// outside [0, vocab), with its position (looked for in the first 2^26 ids; sample() checks the rest).
  TokenSource(const std::string& path, std::int64_t vocab, std::int64_t seq_length, std::uint64_t seed);

  /// Sample number `index` from 0: step × global_batch_size + position in the global batch. Throws
  /// InputError as the constructor for an id outside the vocabulary.
  std::vector<std::int32_t> sample(std::int64_t index) const;
  /// Ids in the file; 0 when synthetic.
  std::int64_t tokens() const { return tokens_; }

 private:
  enum class Element { int32, int64, uint16, uint32 };
  void read_npy_header(const std::string& path);
  std::int64_t checked_id(std::int64_t position) const;

  std::int64_t vocab_;
  std::int64_t seq_length_;
  std::uint64_t seed_;
  std::string path_;
  MappedFile file_;
  Element element_ = Element::int32;
  std::size_t data_offset_ = 0;
  std::int64_t tokens_ = 0;
};

}  // namespace plumbline

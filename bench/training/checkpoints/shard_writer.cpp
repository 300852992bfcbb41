#include "bench/training/checkpoints/shard_writer.hpp"

#include <fmt/format.h>

#include <cstring>
#include <span>

#include "core/base/error.hpp"
#include "core/files/safetensors.hpp"

namespace plumbline::training {

ShardWriter::ShardWriter(const RankStages& stages)
    : operators_(stages.context().operators), pieces_(pieces_to_write(stages)) {
  std::int64_t elements = 0;
  for (const HeldPiece& held : pieces_) elements += held.piece.elements();
  values_.resize(static_cast<std::size_t>(elements));
}

void ShardWriter::copy() {
  float* to = values_.data();
  for (const HeldPiece& held : pieces_) {
    download_piece(operators_, held.memory, to);
    to += held.piece.elements();
  }
}

ShardFacts ShardWriter::write(const std::string& file) const {
  std::vector<TensorFileWriter::Entry> entries;
  entries.reserve(pieces_.size());
  for (const HeldPiece& held : pieces_) {
    entries.push_back(
        {shard_name(held.state, held.piece), StoredType::fp32, {held.piece.rows, held.piece.cols}});
  }
  const auto for_each_value = [&](auto&& visit) {
    const float* from = values_.data();
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const auto count = static_cast<std::size_t>(pieces_[i].piece.elements());
      visit(entries[i].name, std::as_bytes(std::span(from, count)));
      from += count;
    }
  };
  TensorFileWriter writer(file, entries);
  for_each_value(
      [&](const std::string& name, std::span<const std::byte> bytes) { writer.write(name, bytes); });
  writer.finish();
  const TensorFile read(file);
  for_each_value([&](const std::string& name, std::span<const std::byte> bytes) {
    if (std::memcmp(read.get(name).bytes.data(), bytes.data(), bytes.size()) != 0)
      throw Error(fmt::format("{}: tensor \"{}\" reads otherwise than it was written", file, name));
  });
  return facts_of_file(file);
}

}  // namespace plumbline::training

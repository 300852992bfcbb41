// Details of cells in the report page, in compressed blocks: a page reads a block when a cell of it is shown.
#pragma once

#include <cstddef>
#include <string>

#include "core/base/json_keys.hpp"

namespace plumbline {

/// A block is an inert element `details-<number>`: base64 of zlib's format (RFC 1950) of a JSON array of
/// several cells' details.
class DetailBlocks {
 public:
  /// The place of the added details: [block, index within it].
  OrderedJson add(const OrderedJson& details);
  /// HTML of all blocks.
  std::string take();

 private:
  void close();

  std::string open_;      // elements of the array so far
  std::size_t held_ = 0;  // how many
  std::size_t blocks_ = 0;
  std::string html_;
};

}  // namespace plumbline

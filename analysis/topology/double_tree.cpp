#include "analysis/topology/double_tree.hpp"

namespace plumbline {
namespace {

/// Odd numbers are leaves. A parent differs in the lowest set bit and the one above it; if that is no
/// existing node, in the lowest bit only.
int parent_in_first(int node, int nodes) {
  if (node == 0) return -1;
  const int bit = node & -node;
  const int usual = (node ^ bit) | (bit << 1);
  return usual < nodes ? usual : node ^ bit;
}

}  // namespace

std::vector<int> tree_parents(int nodes, TreeOfTwo which) {
  std::vector<int> parents(static_cast<std::size_t>(nodes));
  for (int node = 0; node < nodes; ++node) {
    int& parent = parents[static_cast<std::size_t>(node)];
    if (which == TreeOfTwo::first) {
      parent = parent_in_first(node, nodes);
    } else if (nodes % 2 == 0) {
      const int mirrored = parent_in_first(nodes - 1 - node, nodes);
      parent = mirrored < 0 ? -1 : nodes - 1 - mirrored;
    } else {
      const int moved = parent_in_first((node - 1 + nodes) % nodes, nodes);
      parent = moved < 0 ? -1 : (moved + 1) % nodes;
    }
  }
  return parents;
}

}  // namespace plumbline

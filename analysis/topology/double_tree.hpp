// NCCL's double binary tree: two trees over the same nodes. Nearly every inner node of one is a leaf of the
// other (Sanders, Speck and Träff 2009; numbered as by ncclGetDtree of NCCL's src/graph/trees.cc).
#pragma once

#include <vector>

namespace plumbline {

enum class TreeOfTwo { first, second };

/// The parent of every one of `nodes` nodes; -1: the root. The second tree is the first one mirrored where
/// the number of nodes is even, and shifted by one where it is odd.
std::vector<int> tree_parents(int nodes, TreeOfTwo which);

}  // namespace plumbline
